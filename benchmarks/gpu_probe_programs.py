"""The programs of gpu_probe.py: what is measured of a training, for the loop by hand and for `lab train`."""

# Appended to gpu_step.py's case.py: other sizes, and for a rehearsal other networks.
CASE_END = """
def _int(name, usual):
    return int(os.environ.get(name) or usual)

BATCHES = _int("PROBE_BATCHES", BATCHES)
BATCH = _int("PROBE_BATCH", BATCH)
COMPILE = os.environ.get("PROBE_COMPILE", str(int(COMPILE))) == "1"
CHANNELS_LAST = NAME == "resnet18" and os.environ.get("PROBE_CHANNELS_LAST", "1") == "1"
if not ON_GPU:
    def resnet18():
        return nn.Sequential(
            nn.Conv2d(3, 8, 3, 1, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), Block(8, 16, 2),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10),
        )
    if NAME == "transformer":
        torch.backends.mha.set_fastpath_enabled(False)
"""

# What the loop and `lab train` share: clocks, profiles, what is set.
COMMON = '''
import json, os, time, warnings
from collections import Counter
import torch
from case import ON_GPU, BATCHES, wait_for_device

PLAN = json.loads(os.environ["PROBE_PLAN"])
FILE = os.environ["PROBE_FILE"]
SKIP = int(os.environ["PROBE_SKIP"])  # batches of an epoch before the inner time
FIRST, LAST = SKIP, SKIP + int(os.environ["PROBE_PROFILED"])  # batches that are profiled
SYNC = "called a synchronizing CUDA operation"


class Phase:
    """Measures one epoch; the same for both contenders."""

    results = []

    def begin(self, name):
        self.name, self.profiler, self.watch, self.inner_s = name, None, None, None
        self.row = {"phase": name}
        wait_for_device()
        self.began_s = time.perf_counter()
        self.cpu_s = time.process_time()

    def before_batch(self, i):
        if i == SKIP:
            wait_for_device()
            self.inner_s = time.perf_counter()
        if self.name.startswith("profile"):
            if i == FIRST:
                kinds = [torch.profiler.ProfilerActivity.CPU]
                if ON_GPU:
                    kinds.append(torch.profiler.ProfilerActivity.CUDA)
                wait_for_device()
                self.profiler = torch.profiler.profile(activities=kinds)
                self.profiler.__enter__()
            elif i == LAST and self.profiler:
                wait_for_device()
                self.profiler.__exit__(None, None, None)
                self.row.update(read_profile(self.profiler, LAST - FIRST))
                self.profiler = None
        if self.name == "syncs" and ON_GPU:
            if i == SKIP:
                self.watch = warnings.catch_warnings(record=True)
                self.seen = self.watch.__enter__()
                warnings.filterwarnings("always", message=SYNC)
                torch.cuda.set_sync_debug_mode("warn")
                self.per_step = []
            elif i > SKIP and self.watch:
                waits = [w for w in self.seen if SYNC in str(w.message)]
                places = [f"{w.filename.rsplit('site-packages/', 1)[-1]}:{w.lineno}" for w in waits]
                self.per_step.append(len(places))
                self.row.setdefault("sync_places", Counter()).update(places)
                self.seen.clear()

    def after_batch(self, i):
        if i != BATCHES - 1:
            return
        if self.watch:
            torch.cuda.set_sync_debug_mode("default")
            self.watch.__exit__(None, None, None)
            self.watch = None
            self.row["syncs_per_step"] = self.per_step
        if self.inner_s is not None:
            wait_for_device()
            self.row["inner_ms"] = 1e3 * (time.perf_counter() - self.inner_s) / (BATCHES - SKIP)

    def end(self):
        wait_for_device()
        self.row["epoch_ms"] = 1e3 * (time.perf_counter() - self.began_s) / BATCHES
        self.row["cpu_ms"] = 1e3 * (time.process_time() - self.cpu_s) / BATCHES
        if ON_GPU:
            self.row["peak_gb"] = torch.cuda.max_memory_allocated() / 1e9
            torch.cuda.reset_peak_memory_stats()
        self.results.append(self.row)


def read_profile(profiler, n_steps):
    """Of the trace, whose format is the same in all releases: kernels by time, launches, waits."""
    path = FILE + ".trace"
    profiler.export_chrome_trace(path)
    with open(path) as file:
        events = [e for e in json.load(file)["traceEvents"] if e.get("ph") == "X"]
    os.remove(path)
    of_device = ("kernel", "gpu_memcpy", "gpu_memset") if ON_GPU else ("cpu_op",)
    us, count = Counter(), Counter()
    intervals = []
    for e in events:
        if e.get("cat") in of_device:
            us[e["name"]] += e["dur"]
            count[e["name"]] += 1
            intervals.append((e["ts"], e["ts"] + e["dur"]))
    busy_us, end = 0.0, 0.0
    for a, b in sorted(intervals):
        busy_us += max(0.0, b - max(a, end))
        end = max(end, b)
    calls = Counter(e["name"] for e in events if e.get("cat") in ("cuda_runtime", "cuda_driver"))
    span_us = (max(b for _, b in intervals) - min(a for a, _ in intervals)) if intervals else 0.0
    return {
        "kernels_per_step": sum(count.values()) / n_steps,
        "triton_kernels_per_step": sum(n for k, n in count.items() if k.startswith("triton")) / n_steps,
        "busy_ms_per_step": busy_us / 1e3 / n_steps,
        "span_ms_per_step": span_us / 1e3 / n_steps,
        "runtime_calls_per_step": {k: round(n / n_steps, 2) for k, n in calls.most_common(14)},
        "top": [(k[:110], round(t / 1e3 / n_steps, 4), round(count[k] / n_steps, 2)) for k, t in us.most_common(15)],
    }


def gradients_in(layout, parameters):
    gradients = [p.grad for p in parameters if p.grad is not None]
    return sum(gradient.is_contiguous(memory_format=layout) for gradient in gradients)


def state(model, x, optimizer, compiled):
    """What is set at this moment, within a training step."""
    filters = [p for p in model.parameters() if p.ndim == 4]
    device = x.device.type
    last = torch.channels_last
    return {
        "cudnn.benchmark": torch.backends.cudnn.benchmark,
        "cudnn.deterministic": torch.backends.cudnn.deterministic,
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "matmul": torch.get_float32_matmul_precision(),
        "cudnn.tf32": torch.backends.cudnn.allow_tf32,
        "autocast": [
            torch.is_autocast_enabled(device),
            str(torch.get_autocast_dtype(device)),
            torch.is_autocast_cache_enabled(),
        ],
        "filters_channels_last": [sum(p.is_contiguous(memory_format=last) for p in filters), len(filters)],
        "gradients_channels_last": gradients_in(last, filters),
        "input": [str(x.dtype), list(x.stride()), x.is_pinned() if device == "cpu" and ON_GPU else str(x.device)],
        "optimizer": [type(optimizer).__name__, {k: optimizer.defaults.get(k) for k in ("fused", "capturable")}],
        "stream": torch.cuda.current_stream().cuda_stream if ON_GPU else None,
        "compiled": compiled,
        "threads": torch.get_num_threads(),
        "suppress_errors": torch._dynamo.config.suppress_errors,
        "alloc_conf": os.environ.get("PYTORCH_CUDA_ALLOC_CONF") or os.environ.get("PYTORCH_ALLOC_CONF"),
    }


def dynamo():
    import torch._dynamo.utils as u
    c = u.counters
    return {"stats": dict(c["stats"]), "frames": dict(c["frames"]), "graph_breaks": dict(c["graph_break"]),
            "cache": {k: v for k, v in c["inductor"].items() if "cache" in k}}


def save(**more):
    with open(FILE, "w") as file:
        json.dump({"phases": Phase.results, "dynamo": dynamo(), **more}, file)
'''

LOOP = """
from case import *
import probe_common as pc
torch.manual_seed(0)
torch.set_float32_matmul_precision("high")
torch.backends.cudnn.benchmark = True
model, loader = Net().to(DEVICE), batches()
if CHANNELS_LAST:
    model = model.to(memory_format=torch.channels_last)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
scaler = torch.amp.GradScaler(DEVICE, enabled=AUTOCAST is torch.float16)
compiled = torch.compile(model) if COMPILE else model
phase, seen = pc.Phase(), {}
usual = loader.batches
for epoch, name in enumerate(pc.PLAN):
    forward = model if name in ("eager", "profile_eager") else compiled
    torch.backends.cudnn.benchmark = name != "no_cudnn_benchmark"
    loader.batches = [tuple(t.to(DEVICE) for t in b) for b in usual] if name == "on_device" else usual
    phase.begin(name)
    for i, (x, y) in enumerate(loader):
        phase.before_batch(i)
        x, y = x.to(DEVICE, non_blocking=True), y.to(DEVICE, non_blocking=True)
        if CHANNELS_LAST:
            x = x.contiguous(memory_format=torch.channels_last)
        optimizer.zero_grad()
        with torch.autocast(DEVICE, AUTOCAST):
            loss = F.cross_entropy(forward(x), y)
            if epoch == 0 and i == 2:
                seen = pc.state(model, x, optimizer, forward is not model)
        scaler.scale(loss).backward()
        if epoch == 0 and i == 2:
            seen["gradients_channels_last"] = pc.state(model, x, optimizer, True)["gradients_channels_last"]
        scaler.step(optimizer)
        scaler.update()
        phase.after_batch(i)
    phase.end()
    pc.save(state=seen)
"""

MODULES = """
from types import SimpleNamespace
from case import *
import lightning.pytorch as L
import probe_common as pc

# Callbacks of labrig, by the name of their class, that a phase goes without.
LOGGERS = ("LogMeans", "OptimizerWatch", "Pace", "StepLines", "EpochLines", "FirstLines", "Bar")
WITHOUT = {"no_health": ("Health", "IdleWatch"), "no_loggers": LOGGERS}


class Batches(L.LightningDataModule):
    def train_dataloader(self):
        return batches()


class Phases(L.Callback):
    def on_train_start(self, trainer, task):
        self.kept = SimpleNamespace(all=list(trainer.callbacks), loggers=list(trainer.loggers))
        self.net = task.model
        self.compiled = vars(self.net).get("forward")
        self.phase, self.seen, self.loader_batches = pc.Phase(), {}, None
        step = task.training_step

        def training_step(batch, batch_idx):
            output = step(batch, batch_idx)
            if trainer.current_epoch == 0 and batch_idx == 2:
                self.seen = pc.state(self.net, batch[0], trainer.optimizers[0], "forward" in vars(self.net))
                self.seen["callbacks"] = [type(one).__name__ for one in self.kept.all]
                self.seen["strategy"] = type(trainer.strategy).__name__
                self.seen["loggers"] = [type(one).__name__ for one in self.kept.loggers]
            return output
        task.training_step = training_step

    def on_after_backward(self, trainer, task):
        if trainer.current_epoch == 0 and self.seen and self.seen.get("gradients") is None:
            last = torch.channels_last
            filters = [p for p in self.net.parameters() if p.ndim == 4]
            self.seen["gradients"] = True
            self.seen["gradients_channels_last"] = sum(p.grad.is_contiguous(memory_format=last) for p in filters)

    def on_train_epoch_start(self, trainer, task):
        name = pc.PLAN[trainer.current_epoch]
        without = WITHOUT.get(name, ())
        kept = [one for one in self.kept.all if type(one).__name__ not in without]
        if name not in ("warm", "as_is"):
            kept = [one for one in kept if type(one).__name__ != "Checkpoints"]
        if name == "no_callbacks":
            kept = [one for one in self.kept.all if one is self or type(one).__name__ == "Internals"]
        trainer.callbacks = kept
        trainer.loggers = [] if name in ("no_loggers", "no_callbacks") else self.kept.loggers
        if self.compiled is not None:
            vars(self.net).pop("forward", None)
            if name not in ("eager", "profile_eager"):
                self.net.forward = self.compiled
        torch.backends.cudnn.benchmark = name != "no_cudnn_benchmark"
        loader = trainer.train_dataloader
        self.loader_batches = self.loader_batches or loader.batches
        loader.batches = self.loader_batches
        if name == "on_device":
            loader.batches = [tuple(t.to(DEVICE) for t in b) for b in self.loader_batches]
        if name == "lightnings_loop":
            for one in self.kept.all:
                if type(one).__name__ == "Internals":
                    one.replacements.close()
        self.phase.begin(name)

    def on_train_batch_start(self, trainer, task, batch, batch_idx):
        self.phase.before_batch(batch_idx)

    def on_train_batch_end(self, trainer, task, outputs, batch, batch_idx):
        self.phase.after_batch(batch_idx)

    def on_train_epoch_end(self, trainer, task):
        self.phase.end()
        pc.save(state=self.seen)
"""
