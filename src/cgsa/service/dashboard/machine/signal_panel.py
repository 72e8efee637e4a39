"""The signal itself: waveform and spectrum of a channel, with lines to look for."""

from __future__ import annotations

from urllib.parse import unquote

from nicegui import ui

from cgsa.errors import DataError
from cgsa.service.dashboard import labels as words
from cgsa.service.dashboard.charts import spectrum_options, wave_options
from cgsa.service.dashboard.machine.panel import Panel
from cgsa.service.dashboard.plant_view import Signal
from cgsa.service.dashboard.spectra import MOST_HARMONICS, Lines, parse_orders
from cgsa.service.dashboard.widgets import chart, draw, heading

COOKIE = "cgsa-lines"
NOW = "Now"


class SignalPanel(Panel):
    """What the sensors say.

    Models know no speed of a shaft and no number of teeth. So the lines at which
    a fault would show itself are told by the person, whose browser keeps them
    for each machine.
    """

    def build(self) -> None:
        """Draw it once, empty."""
        self._lines = Lines.parse(unquote(self.visit.request.cookies.get(COOKIE, "")))
        channels = self.about.channels
        with ui.element("div").classes("card"), ui.element("div").classes("line"):
            self._moment = ui.select([NOW], value=NOW, label="Moment", on_change=self.refresh)
            self._moment.props("dense outlined options-dense").style("min-width: 170px")
            self._channel = ui.select(list(channels), value=channels[0], label="Channel", on_change=self.refresh)
            self._channel.props("dense outlined options-dense").style("min-width: 170px")
            self._rpm = ui.number("Shaft speed, rpm", value=self._lines.rpm or None, min=0, on_change=self._set_lines)
            self._orders = ui.input("Orders, such as 1, 3.57", on_change=self._set_lines)
            self._orders.value = ", ".join(f"{order:g}" for order in self._lines.orders)
            self._harmonics = ui.number(
                "Harmonics",
                value=self._lines.harmonics,
                min=1,
                max=MOST_HARMONICS,
                precision=0,
                on_change=self._set_lines,
            )
            for field, width in ((self._rpm, 150), (self._orders, 220), (self._harmonics, 110)):
                field.props("dense outlined debounce=500").style(f"width: {width}px")
            self._odd = ui.label("Lines are drawn once a shaft speed is given").classes("muted")
        with ui.element("div").classes("card"):
            heading("Waveform")
            self._when = ui.label("no block has come so far").classes("muted").style("min-height: 19px")
            self._wave = chart()
        with ui.element("div").classes("card"):
            heading("Spectrum")
            self._how = ui.label().classes("muted").style("min-height: 19px")
            self._spectrum = chart("tall")

    async def refresh(self) -> None:
        """Show what there is now."""
        signal = await self._wanted()
        block, seen = signal.block, signal.spectrum
        channel = str(self._channel.value)
        if block is None or seen is None or channel not in block.channels:
            return
        place, look = block.channels.index(channel), self.visit.look
        unit = self.about.units[self.about.channels.index(channel)]
        when = words.moment(block.time, self.visit.zone, block.time)
        values = block.samples[place].astype(float)
        rms, peak = float((values**2).mean() ** 0.5), float(abs(values).max())
        what = f"block of {1000 * block.seconds:.0f} ms at {when}"
        if signal.case is not None:
            what = f"{block.seconds:.1f} s around the alarm of case {signal.case}, from {when} on"
        self._when.set_text(
            f"{what}: RMS {rms:.3g} {unit}, peak {peak:.3g} {unit}, crest factor {peak / rms if rms else 0:.1f}"
        )
        self._how.set_text(
            f"Hann window, {seen.resolution:.3g} Hz from line to line, mean power of {signal.averaged} "
            f"block{'s' if signal.averaged > 1 else ''}"
        )
        draw(self._wave, wave_options(block, place, unit, look))
        draw(self._spectrum, spectrum_options(seen, place, unit, self._lines, look))

    async def _wanted(self) -> Signal:
        """Return the samples of the moment that is chosen: now, or around an alarm."""
        alarms = {}
        for signal in await self.board.alarm_signals(self.machine):
            if signal.block is not None:
                when = words.moment(signal.block.time, self.visit.zone, self.worker.watch.now)
                alarms[f"Case {signal.case}, {when}"] = signal
        options = [NOW, *alarms]
        if options != self._moment.options:
            # A moment that is gone, since waveforms are not kept for ever, gives way to now.
            self._moment.set_options(options, value=self._moment.value if self._moment.value in options else NOW)
        return alarms.get(str(self._moment.value)) or await self.board.signal(self.machine)

    async def _set_lines(self) -> None:
        try:
            self._lines = Lines(
                rpm=float(self._rpm.value or 0),
                orders=parse_orders(str(self._orders.value or "")) or (1.0,),
                harmonics=int(self._harmonics.value or 1),
            )
        except DataError as error:
            self._odd.set_text(str(error))
            return
        self._odd.set_text("" if self._lines.rpm else "Lines are drawn once a shaft speed is given")
        self.visit.keep(COOKIE, self._lines.to_text(), path=self.visit.request.url.path)
        await self.refresh()
