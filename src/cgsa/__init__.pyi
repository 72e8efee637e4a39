from cgsa.data.library import open_library as open_library
from cgsa.data.readers import read_recording as read_recording
from cgsa.data.recording import Recording as Recording
from cgsa.data.scenario import Scenario as Scenario
from cgsa.diagnosis.diagnoser import Diagnoser as Diagnoser
from cgsa.errors import CgsaError as CgsaError
from cgsa.estimators.machine import Machine as Machine
from cgsa.estimators.machine import load as load
from cgsa.estimators.verdicts import WindowVerdicts as WindowVerdicts
from cgsa.live.levels.config import LevelConfig as LevelConfig
from cgsa.live.signal_diagnoser import DiagnosisConfig as DiagnosisConfig
from cgsa.live.signal_diagnoser import SignalDiagnoser as SignalDiagnoser
from cgsa.metrics.stream import score as score
from cgsa.nn.bundle import ModelBundle as ModelBundle
from cgsa.offline import OBJECTIVES as OBJECTIVES
from cgsa.online import METHODS as METHODS
from cgsa.online.base import OnlineMethod as OnlineMethod
from cgsa.online.base import StepOutput as StepOutput
from cgsa.profile import Profile as Profile
from cgsa.rigs.library import RigLibrary as RigLibrary
from cgsa.workflow import diagnose as diagnose
from cgsa.workflow import run_method as run_method
from cgsa.workflow import stream_windows as stream_windows
from cgsa.workflow import train as train
from cgsa.workflow import training_windows as training_windows

__version__: str
