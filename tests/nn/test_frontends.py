from __future__ import annotations

import numpy as np
import pytest
import torch

from cgsa.nn.frontends import FRONTENDS, PART, BandFrontend, MagnitudeFrontend, RawFrontend, SpectrumFrontend


def test_scaling_comes_from_the_training_samples() -> None:
    frontend = RawFrontend(2, 4)
    samples = torch.tensor([[1.0, 3.0, 1.0, 3.0], [10.0, 10.0, 30.0, 30.0]])
    frontend.fit(samples, samples[None])
    expected = torch.tensor([[[-1.0, 1.0, -1.0, 1.0], [-1.0, -1.0, 1.0, 1.0]]])
    torch.testing.assert_close(frontend.scale(samples[None]), expected)
    torch.testing.assert_close(frontend(samples[None]), expected.flatten(1))


def test_scaling_of_a_large_offset_keeps_its_digits() -> None:
    frontend = RawFrontend(1, 4)
    noise = torch.randn(1, 1_000_000, generator=torch.Generator().manual_seed(0))
    frontend.fit(noise + 1000.0, noise[None, :, :4])
    torch.testing.assert_close(frontend.deviation, noise.std(dim=1, keepdim=True), rtol=1e-3, atol=0)


def test_a_dead_channel_becomes_zero_not_nan() -> None:
    frontend = RawFrontend(1, 4)
    frontend.fit(torch.full((1, 100), 5.0), torch.full((1, 1, 4), 5.0))
    assert torch.equal(frontend(torch.full((1, 1, 4), 5.0)), torch.zeros(1, 4))


def noise_and_windows(channels: int = 2, length: int = 64) -> tuple[torch.Tensor, torch.Tensor]:
    samples = torch.randn(channels, 4096, generator=torch.Generator().manual_seed(0)) * 3 + 1
    return samples, samples.unfold(1, length, 16).permute(1, 0, 2)


@pytest.mark.parametrize("name", list(FRONTENDS))
def test_every_front_end_gives_scaled_and_smooth_features(name: str) -> None:
    samples, windows = noise_and_windows()
    frontend = FRONTENDS[name](2, 64)
    frontend.fit(samples, windows)
    features = frontend(windows)
    assert features.shape == (len(windows), frontend.out_features)
    assert abs(float(features.mean())) < 0.1
    assert float(features.std()) == pytest.approx(1.0, abs=0.05)
    x = windows[:1].clone().requires_grad_()
    torch.autograd.backward(frontend(x).sum())
    assert x.grad is not None
    assert bool(torch.isfinite(x.grad).all())


@pytest.mark.parametrize("name", list(FRONTENDS))
def test_a_silent_channel_never_becomes_nan(name: str) -> None:
    samples, windows = noise_and_windows()
    samples[1], windows = 0.0, windows.clone()
    windows[:, 1] = 0.0
    frontend = FRONTENDS[name](2, 64)
    frontend.fit(samples, windows)
    assert bool(torch.isfinite(frontend(windows)).all())
    assert bool(torch.isfinite(frontend(torch.zeros(1, 2, 64))).all())


def test_the_spectrum_against_numpy() -> None:
    samples, windows = noise_and_windows()
    frontend = SpectrumFrontend(2, 64)
    frontend.fit(samples, windows)
    raw = samples.double().numpy()
    for place, channel in ((0, 0), (7, 1)):
        x = windows[place, channel].double().numpy()
        x = (x - raw[channel].mean()) / raw[channel].std()
        taper = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(64) / 64)
        magnitude = np.abs(np.fft.rfft((x - x.mean()) * taper))[1:]
        expected = np.log(magnitude + 1e-3 * np.sqrt(0.375 * 64))
        found = frontend.features(windows)[place, channel].numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_a_louder_machine_raises_all_bins_equally() -> None:
    samples, windows = noise_and_windows()
    frontend = SpectrumFrontend(2, 64)
    frontend.fit(samples - samples.mean(), windows)
    quiet = frontend.features(windows - 1)
    loud = frontend.features(10 * (windows - 1))
    torch.testing.assert_close(
        (loud - quiet).median(), torch.tensor(np.log(10.0), dtype=torch.float32), rtol=1e-2, atol=0
    )


def test_magnitudes_are_means_of_neighbouring_lines() -> None:
    samples, windows = noise_and_windows(length=192)
    magnitudes = MagnitudeFrontend(2, 192)
    magnitudes.fit(samples, windows)
    deviation = samples.double().std(dim=1, correction=0)
    for window, found in zip(windows[:4], magnitudes.features(windows[:4]), strict=True):
        for channel in range(2):
            # A constant plays no part, so the mean of the training need not be taken off.
            centred = (window[channel] - window[channel].mean()).double() / deviation[channel]
            lines = np.abs(np.fft.rfft(centred.numpy() * torch.hann_window(192).double().numpy()))[1:]
            np.testing.assert_allclose(found[channel], lines.reshape(48, 2).mean(axis=1), rtol=1e-4, atol=1e-5)


def test_bands_are_means_of_neighbouring_bins() -> None:
    samples, windows = noise_and_windows(length=192)
    bands, bins = BandFrontend(2, 192), SpectrumFrontend(2, 192)
    for frontend in (bands, bins):
        frontend.fit(samples, windows)
    expected = bins.features(windows).reshape(len(windows), 2, 48, 2).mean(dim=-1)
    torch.testing.assert_close(bands.features(windows), expected)
    assert BandFrontend(1, 16).out_features == 8


@pytest.mark.parametrize("kind", [SpectrumFrontend, BandFrontend, MagnitudeFrontend])
@pytest.mark.parametrize("windows_of", ["samples", "their own"])
@torch.no_grad()
def test_windows_in_parts_have_the_features_of_all_at_once(kind: type[SpectrumFrontend], windows_of: str) -> None:
    samples, windows = noise_and_windows(channels=3, length=256)
    frontend = kind(3, 256)
    frontend.fit(samples, windows)
    given = windows[torch.arange(len(windows)) % 7 > 0] if windows_of == "their own" else windows
    assert len(given) > 3 * PART
    found = frontend.features(given)
    assert torch.equal(found, frontend.features_of_scaled(frontend.scale_windows(given)))
    assert torch.equal(found, torch.cat([frontend.features_of_scaled(frontend.scale(one[None])) for one in given]))
