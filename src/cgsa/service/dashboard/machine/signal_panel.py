"""Waveform and spectrum of a channel, with order lines."""

from __future__ import annotations

from urllib.parse import unquote

from nicegui import ui

from cgsa.errors import DataError
from cgsa.service.dashboard import labels
from cgsa.service.dashboard.charts import spectrum_options, waveform_options
from cgsa.service.dashboard.machine.panel import Panel
from cgsa.service.dashboard.plant_view import Signal
from cgsa.service.dashboard.spectra import MAX_HARMONICS, OrderLines, parse_orders
from cgsa.service.dashboard.widgets import empty_chart, heading, update_chart

COOKIE = "cgsa-lines"
NOW = "Now"
NO_SPEED = "Enter a shaft speed to draw lines"


class SignalPanel(Panel):
    """The signals of the sensors.

    Models do not know the speed of a shaft or the number of teeth. So the user enters the orders at which a fault
    would show, and the browser keeps them for each machine.
    """

    def build(self) -> None:
        """Build the elements, without data."""
        self._lines = lines = OrderLines.parse(unquote(self.session.request.cookies.get(COOKIE, "")))
        channels = self.manifest.channels
        with ui.element("div").classes("card"), ui.element("div").classes("line"):
            self._time = ui.select([NOW], value=NOW, label="Time", on_change=self.refresh)
            self._channel = ui.select(list(channels), value=channels[0], label="Channel", on_change=self.refresh)
            for select in (self._time, self._channel):
                select.props("dense outlined options-dense").style("min-width: 170px")
            self._rpm = ui.number("Shaft speed, rpm", value=lines.rpm or None, min=0, on_change=self._set_lines)
            self._orders = ui.input("Orders, such as 1, 3.57", on_change=self._set_lines)
            self._orders.value = ", ".join(f"{order:g}" for order in lines.orders)
            self._harmonics = ui.number(
                "Harmonics", value=lines.harmonics, min=1, max=MAX_HARMONICS, precision=0, on_change=self._set_lines
            )
            for field, width in ((self._rpm, 150), (self._orders, 220), (self._harmonics, 110)):
                field.props("dense outlined debounce=500").style(f"width: {width}px")
            self._lines_problem = ui.label(NO_SPEED).classes("muted")
        with ui.element("div").classes("card"):
            heading("Waveform")
            self._waveform_text = ui.label("no block received yet").classes("muted").style("min-height: 19px")
            self._waveform = empty_chart()
        with ui.element("div").classes("card"):
            heading("Spectrum")
            self._spectrum_text = ui.label().classes("muted").style("min-height: 19px")
            self._spectrum = empty_chart("tall")

    async def refresh(self) -> None:
        """Show the newest data."""
        signal = await self._chosen_signal()
        block, spectrum = signal.block, signal.spectrum
        channel = str(self._channel.value)
        if block is None or spectrum is None or channel not in block.channels:
            return
        index, palette = block.channels.index(channel), self.session.palette
        unit = self.manifest.units[self.manifest.channels.index(channel)]
        time = labels.format_time(block.time, self.session.zone, block.time)
        values = block.samples[index].astype(float)
        rms, peak = float((values**2).mean() ** 0.5), float(abs(values).max())
        title = f"block of {1000 * block.seconds:.0f} ms at {time}"
        if signal.case is not None:
            title = f"{block.seconds:.1f} s around the alarm of case {signal.case}, from {time}"
        self._waveform_text.set_text(
            f"{title}: RMS {rms:.3g} {unit}, peak {peak:.3g} {unit}, crest factor {peak / rms if rms else 0:.1f}"
        )
        self._spectrum_text.set_text(
            f"Hann window, resolution {spectrum.resolution:.3g} Hz, mean power of {signal.averaged} "
            f"block{'s' if signal.averaged > 1 else ''}"
        )
        update_chart(self._waveform, waveform_options(block, index, unit, palette))
        update_chart(self._spectrum, spectrum_options(spectrum, index, unit, self._lines, palette))

    async def _chosen_signal(self) -> Signal:
        """Return the samples of the chosen time: now, or around an alarm."""
        alarms = {}
        for signal in await self.view.alarm_signals(self.machine):
            if signal.block is not None:
                time = labels.format_time(signal.block.time, self.session.zone, self.worker.now)
                alarms[f"Case {signal.case}, {time}"] = signal
        options = [NOW, *alarms]
        if options != self._time.options:
            # The waveform of the chosen alarm may have been deleted from the store.
            self._time.set_options(options, value=self._time.value if self._time.value in options else NOW)
        return alarms.get(str(self._time.value)) or await self.view.signal(self.machine)

    async def _set_lines(self) -> None:
        try:
            self._lines = OrderLines(
                rpm=float(self._rpm.value or 0),
                orders=parse_orders(str(self._orders.value or "")) or (1.0,),
                harmonics=int(self._harmonics.value or 1),
            )
        except DataError as error:
            self._lines_problem.set_text(str(error))
            return
        self._lines_problem.set_text("" if self._lines.rpm else NO_SPEED)
        self.session.set_cookie(COOKIE, self._lines.to_text(), path=self.session.request.url.path)
        await self.refresh()
