"use strict";

// A time along the stream: chosen by pointer on any ribbon, by the slider, or by playing.
// A vertical line marks it everywhere, and the panel says what was true and what each approach said.

const data = JSON.parse(document.getElementById("data").textContent);
const slider = document.getElementById("time");
const play = document.getElementById("play");
const PLAY_SECONDS = 12; // for the whole stream

function verdictText(state) {
  return state < 0 ? "none yet" : data.states[state];
}

function approachEntry(one, place) {
  const [box, name, text, more] = ["div", "dt", "dd", "small"].map((kind) => document.createElement(kind));
  const [state, alarm, decision] = [one.verdict[place], one.alarm[place], one.decision[place]];
  const wrong = state >= 0 && state !== data.truth[place];
  const parts = [alarm ? `alarm: ${data.states[alarm]}` : "no alarm"];
  if (decision >= 0) parts.push(`${Math.round(100 * one.share[place])}% of decisions: ${data.states[decision]}`);
  name.textContent = one.title;
  text.textContent = verdictText(state) + (wrong ? " ✗" : "");
  if (wrong) text.className = "bad";
  more.textContent = parts.join("; ");
  text.append(more);
  box.append(name, text);
  return box;
}

function show(place) {
  slider.value = place;
  const time = data.time[place];
  document.body.style.setProperty("--at", `${(100 * time) / data.seconds}%`);
  const inside = data.trained[place] ? "within" : "beyond";
  const truth = `truth: ${data.states[data.truth[place]]}`;
  document.getElementById("at").textContent = `${time.toFixed(1)} s`;
  document.getElementById("now").textContent =
    `${truth}; ${data.name} ${data.condition[place].toFixed(1)} ${data.unit}, ${inside} the trained range`;
  document.getElementById("values").replaceChildren(...data.approaches.map((one) => approachEntry(one, place)));
  const said = data.approaches.map((one) => `${one.title}: ${verdictText(one.verdict[place])}`);
  slider.setAttribute("aria-valuetext", [`${time.toFixed(1)} s`, truth, ...said].join("; "));
}

function placeOf(event, track) {
  const box = track.getBoundingClientRect();
  const share = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
  return Math.min(data.time.length - 1, Math.floor(share * data.time.length));
}

let playing = 0;

function stop() {
  cancelAnimationFrame(playing);
  playing = 0;
  play.textContent = "▶";
  play.setAttribute("aria-label", "Play the stream");
}

function start() {
  const last = data.time.length - 1;
  const from = Number(slider.value) >= last ? 0 : Number(slider.value);
  let begun = null;
  play.textContent = "❚❚";
  play.setAttribute("aria-label", "Pause");
  const step = (now) => {
    begun ??= now;
    const place = Math.min(last, from + Math.floor(((now - begun) / 1000 / PLAY_SECONDS) * last));
    show(place);
    if (place < last) playing = requestAnimationFrame(step);
    else stop();
  };
  playing = requestAnimationFrame(step);
}

for (const track of document.querySelectorAll(".track")) {
  for (const kind of ["pointerdown", "pointermove"]) {
    track.addEventListener(kind, (event) => {
      stop();
      show(placeOf(event, track));
    });
  }
}
slider.addEventListener("input", () => {
  stop();
  show(Number(slider.value));
});
play.addEventListener("click", () => (playing ? stop() : start()));
document.querySelector(".reading").hidden = false;
const onset = data.truth.findIndex((label) => label > 0);
show(onset > 0 ? Math.min(data.time.length - 1, onset + 20) : 0);
