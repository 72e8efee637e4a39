"""The newest signal over the healthy signal: what rose and by how much, the envelope, and fault lines."""

from __future__ import annotations

import asyncio

from nicegui import ui

from cgsa.report.explain import PEAK_HEADER, peak_row
from cgsa.service.dashboard import labels
from cgsa.service.dashboard.actions import ask
from cgsa.service.dashboard.machine.panel import Panel
from cgsa.service.dashboard.trend_charts import compared_options
from cgsa.service.dashboard.widgets import button, empty_chart, heading, scrolled_block, table_html, update_chart
from cgsa.service.trends.comparison import ENVELOPE, HealthyComparison

NO_LINES = "None"
WAITING = "Waiting for the signal …"
NO_SIGNAL = "No signal has come since the start of the service"
NOTHING = "Nothing stands out against the healthy signal"
BAND_HEADER = ("Channel", "Band", "Change", "Beyond the healthy scatter")
ROWS = 8


class ComparisonPanel(Panel):
    """What differs from the healthy machine now."""

    def build(self) -> None:
        """Build the elements, without data."""
        with ui.element("div").classes("card stack"):
            with ui.element("div").classes("spread"):
                heading("Compared with the healthy machine")
                renew = button("Renew the healthy signal", self._renew)
                renew.set_visibility(self.session.person.may("operator"))
            self._compared_with = ui.label(WAITING).classes("muted").props("role=status")
            self._sentences = ui.label().classes("text").style("white-space: pre-line")
            self._notes = ui.label().classes("muted").style("white-space: pre-line")
            with ui.element("div").classes("line"):
                channels = list(self.manifest.channels)
                self._channel = ui.select(channels, value=channels[0], label="Channel", on_change=self.refresh)
                self._part = ui.select([NO_LINES], value=NO_LINES, label="Fault lines", on_change=self.refresh)
                for select in (self._channel, self._part):
                    select.props("dense outlined options-dense").style("min-width: min(260px, 80vw)")
        with ui.element("div").classes("card"):
            heading("Spectrum")
            self._spectrum = empty_chart("tall")
        with ui.element("div").classes("card"):
            heading("Envelope spectrum")
            ui.label("How often impacts come, whatever resonance they excite; relative to the mean").classes("muted")
            self._envelope = empty_chart("tall")
        with ui.element("div").classes("two"):
            with ui.element("div").classes("card"):
                heading("Lines that rose")
                self._peaks = scrolled_block("Lines that rose")
                self._no_peaks = ui.label("None").classes("empty")
            with ui.element("div").classes("card"):
                heading("Bands that changed")
                self._bands = scrolled_block("Bands that changed")
                self._no_bands = ui.label("None beyond the scatter of the healthy machine").classes("empty")

    async def refresh(self) -> None:
        """Show the newest data."""
        found = await self.view.comparison(self.machine, self.session.context.trends)
        if found is None:
            self._compared_with.set_text(NO_SIGNAL)
            return
        time = labels.format_time(found.time, self.session.zone, found.time)
        self._compared_with.set_text(f"{found.seconds:.1f} s from {time} on, compared with {found.compared_with}")
        self._show_findings(found)
        parts = [NO_LINES, *found.families]
        if parts != self._part.options:
            chosen = self._part.value if self._part.value in parts else NO_LINES
            self._part.set_options(parts, value=chosen)
        self._show_spectra(found)

    def _show_findings(self, found: HealthyComparison) -> None:
        about = found.explanation
        compared = about is not None and bool(about.healthy)
        sentences = [] if about is None else about.sentences
        self._sentences.set_text("\n".join(sentences or ([NOTHING] if compared else [])))
        self._notes.set_text("\n".join(labels.capitalise(text) for text in found.notes))
        peaks = [] if about is None else [peak_row(one) for one in about.peaks[:ROWS]]
        bands = [] if about is None else [one for one in about.bands if one.beyond > 0][:ROWS]
        rows = [
            (one.channel, f"{one.low:.0f} to {one.high:.0f} Hz", f"{one.decibels:+.1f} dB", f"{one.beyond:.1f} dB")
            for one in bands
        ]
        self._peaks.set_content(table_html(PEAK_HEADER, peaks, numbers=(1, 2, 3), wrapped=(4,)) if peaks else "")
        self._bands.set_content(table_html(BAND_HEADER, rows, numbers=(2, 3)) if rows else "")
        self._no_peaks.set_visibility(not peaks)
        self._no_bands.set_visibility(not rows)

    def _show_spectra(self, found: HealthyComparison) -> None:
        channel, part = str(self._channel.value), str(self._part.value)
        if not found.spectra or channel not in found.channels:
            return
        place, palette = found.channels.index(channel), self.session.palette
        lines = found.families.get(part, ())
        in_envelope = part.startswith(ENVELOPE)
        unit = found.units[place]
        plain = compared_options(found.spectra[place], unit, () if in_envelope else lines, palette)
        update_chart(self._spectrum, plain)
        envelope = compared_options(found.envelopes[place], "", lines if in_envelope else (), palette)
        update_chart(self._envelope, envelope)

    async def _renew(self) -> None:
        answer = await ask(
            "Renew the healthy signal",
            "The signals that spectra are compared with are forgotten, and taken anew while the machine is reported "
            "healthy, such as after a repair. Verdicts do not depend on them.",
            confirm="Renew",
            destructive=True,
        )
        if answer is None:
            return
        context, request = self.session.context, self.session.request
        person = await asyncio.to_thread(context.authenticator.person_of, request)
        context.authenticator.require(person, "operator")
        await asyncio.to_thread(context.trends.healthy.renew, self.machine)
        context.audit(request, person, "renew_healthy_signal", self.machine)
        self.view.forget_comparison(self.machine)
        ui.notify("The healthy signal is taken anew", type="positive")
