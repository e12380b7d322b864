"""Which files make an area, and which tests ought to notice a fault in them, fastest first."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

LIBRARY = "build/libcustom_kernel.so"
SIMULATED = "build/libcustom_kernel_sim.so"
TILE_TABLE = "build/tile_table"
SIMULATOR = ("build/ptxsim", "build/libptxsim.so", "build/ptxsim_no_memory", SIMULATED)
TENSOR_LIBRARY = "build/libtensor_test.so"
FEATURES = ("test-programs",)  # the runtime's stand-ins among them, which tests of programs load
SIMULATOR_TESTS = ("tests/simulator/**/test_*.py",)
SUBMISSION_TESTS = ("tests/submission/**/test_*.py", "tests/simulator/kernels/test_*.py")


@dataclass(frozen=True)
class Area:
    """Patterns of files, the tests' files in the order to run them in, and what make rebuilds for them."""

    files: tuple[str, ...]
    tests: tuple[str, ...]
    targets: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    wider: tuple[str, ...] = ()  # asked last, on everything built again: the tests of the layers around it


# Tests are named by file, or by a pattern below tests/: they are looked for in every folder there.
AREAS: dict[str, Area] = {
    "core": Area(
        ("submission/core/*.[ch]", "submission/custom_kernel.h"),
        (
            "test_abi.py",
            "test_abi_limits.py",
            "test_grouped_abi.py",
            "test_extended_abi.py",
            "test_backend_choice.py",
            "test_shim.py",
            "test_group_shim.py",
            "test_python_groups.py",
            "test_cpu_threads.py",
            "test_gpu_launches.py",  # rounding up, and what else the GPUs' host code takes from there
        ),
        (LIBRARY,),
        wider=SUBMISSION_TESTS,
    ),
    "cpu": Area(
        ("submission/cpu/**/*.[ch]",),
        (
            "test_cpu_limits.py",
            "test_cpu_kernels.py",
            "test_amx.py",
            "test_neon.py",
            "test_grouped.py",
            "test_extended.py",
            "test_cpu_threads.py",
            "test_abi.py",
        ),
        (LIBRARY,),
        wider=SUBMISSION_TESTS,
    ),
    "shim": Area(
        ("submission/*.py",),
        (
            "test_shim.py",
            "test_shim_limits.py",
            "test_group_shim.py",
            "test_python_groups.py",
            "test_layouts.py",
            "test_torch_operator.py",
            "test_extended.py",
            "test_torch_mlp.py",
        ),
        wider=SUBMISSION_TESTS,
    ),
    "host": Area(
        (
            "submission/gpu/*.c",
            "submission/gpu/host.h",
            "submission/hopper/**/*.c",
            "submission/blackwell/**/*.c",
            "submission/geforce/**/*.c",
            "submission/**/*_selection.h",
            "submission/tile_table/*.[ch]",
        ),
        (
            "test_tile_selection.py",
            "test_gpu_devices.py",
            "test_gpu_launches.py",
            "test_grouped_launches.py",
            "test_hopper.py",
            "test_blackwell_host.py",
            "test_gpu_refusals.py",
            "test_runtime.py",
            "test_hopper_kernels.py",
            "test_grouped_kernels.py",
            "test_blackwell.py",
            "test_blackwell_kernels.py",
            "test_geforce_kernels.py",
            "test_geforce.py",
        ),
        (LIBRARY, SIMULATED, TILE_TABLE),
        wider=SUBMISSION_TESTS,
    ),
    "hopper": Area(
        (
            "submission/hopper/**/*.cu*",
            "submission/hopper/**/[!t]*.h",
            "submission/gpu/instructions/[!t]*",
            "submission/gpu/[!t]*.cuh",
        ),
        (
            "test_instruction_operands.py",
            "test_permute_scales.py",
            "test_hopper_kernels.py",
            "test_grouped_kernels.py",
            "test_extended_kernels.py",
            "test_hopper_recorded.py",
        ),
        (SIMULATED,),
    ),
    "blackwell": Area(
        (
            "submission/blackwell/**/*.cu*",
            "submission/blackwell/**/[!t]*.h",
            "submission/gpu/instructions/tcgen05*",
            "submission/gpu/[!h]*.h",
        ),
        (
            "test_instruction_operands.py",
            "test_blackwell_host.py",
            "test_blackwell_kernels.py",
            "test_grouped_kernels.py",
            "test_extended_kernels.py",
        ),
        (SIMULATED,),
    ),
    "geforce": Area(
        ("submission/geforce/**/*.cu*", "submission/geforce/**/[!t]*.h", "submission/gpu/instructions/sm120.cuh"),
        ("test_instruction_operands.py", "test_geforce_kernels.py", "test_geforce.py"),
        (SIMULATED,),
    ),
    "reference": Area(
        ("reference/*.py", "reference/problems/*.py"),
        (
            "test_nvfp4.py",
            "test_reference_limits.py",
            "test_reference.py",
            "test_check.py",
            "test_group_reference.py",
            "test_extended.py",
            "test_data.py",
            "test_chip.py",
            "test_group_problem.py",
        ),
    ),
    "eval": Area(
        ("eval/*.py", "eval/*/*.py", "eval/timing/*.[ch]"),
        (
            "tests/eval/output/*.py",
            "test_statistics.py",
            "test_chip.py",
            "test_cases.py",
            "test_execbench.py",
            "test_command.py",
            "test_protocol_lines.py",
            "test_supervisor.py",
            "test_worker_parts.py",
            "test_template.py",
            "tests/eval/lending/*.py",
            "test_eval_device.py",
            "test_eval_units.py",
            "tests/eval/sandbox/*.py",
            "test_eval_protocol.py",
            "test_answers.py",
            "test_capacity.py",
            "test_misuse.py",
            "test_data.py",
            "test_group_problem.py",
            "test_comparison.py",
            "test_reaching.py",
            "test_eval_guards.py",
            "test_declarations.py",
        ),
    ),
    "release": Area(
        ("scripts/release/*.py", "scripts/release/execbench/*.py"),
        (
            "test_execbench.py",
            "test_lint_rules.py",
            "test_lint_submission.py",
            "test_submit.py",
            "test_bundle_loader.py",
            "test_bundle_build.py",
            "test_group_bundle.py",
            "test_bundle.py",
            "test_bundle_cache.py",
            "test_wheel.py",
            "test_install.py",
            "test_declarations.py",
        ),
    ),
    "rounds": Area(
        ("scripts/rounds/**/*.py",),
        (
            "test_rounds_figures.py",
            "test_rounds_rules.py",
            "test_rounds_order.py",
            "test_rounds_origin.py",
            "test_ledger.py",
            "test_rounds_simulation.py",
            "test_rounds.py",
            "test_rounds_found.py",
            "test_modelled.py",
            "test_declarations.py",
        ),
    ),
    "history": Area(
        ("scripts/history/*.py", "scripts/evidence/readme.py"),
        ("test_readme.py", "test_history_plots.py", "test_history.py", "test_declarations.py"),
    ),
    "third-party": Area(
        ("scripts/evidence/third_party/render.py", "scripts/evidence/third_party/judgements.py"),
        ("test_third_party.py", "test_declarations.py"),
    ),
    "cost-model": Area(
        ("scripts/cost_model/*.py", "scripts/common/*.py"),
        (
            "test_model_programs.py",
            "test_cost_counters.py",
            "test_blackwell_clock.py",
            "test_model_times.py",
            "test_geforce_clock.py",
            "test_live_counts.py",
            "test_forked.py",
            "test_library.py",
            "test_formats.py",
            "test_launch_control.py",
            "test_addresses.py",
            "test_declarations.py",
        ),
        wider=("tests/simulator/tensorcore/test_*.py", "tests/simulator/hazard/test_*.py", "test_setup.py"),
    ),
    "bring-up": Area(
        # Triton's kernel runs on a card only.
        ("scripts/bring_up/*.py", "scripts/bench/[!t]*.py", "scripts/bench/micro/*.py"),
        (
            "test_bring_up_protocol.py",
            "test_bring_up_steps.py",
            "test_bench.py",
            "test_bench_grouped.py",
            "test_bench_host.py",
            "test_bench_sweep.py",
            "test_harness_ratio.py",
            "test_provenance.py",
            "test_first_import.py",
            "test_check_gpu.py",
            "test_micro.py",
            "test_bring_up.py",
            "test_declarations.py",
        ),
    ),
    "build": Area(
        ("Makefile", "scripts/*.sh", "submission/**/*.mk", "simulator/**/*.mk"),
        ("test_commands.py", "test_setup.py", "test_build.py", "test_install.py", "test_journeys.py"),
    ),
    "sim-ptx": Area(
        ("simulator/ptx/*.[ch]",),
        (
            "test_text.py",
            "test_given_back.py",
            "test_altered_spellings.py",
            "test_parser.py",
            "test_scalar.py",
            "test_spellings.py",
            "test_control.py",
            "test_modes.py",
        ),
        SIMULATOR,
        wider=SIMULATOR_TESTS,
    ),
    "sim-scalar": Area(
        ("simulator/isa/scalar/*.[ch]",),
        (
            "test_bit_values.py",
            "test_integer_values.py",
            "test_comparison_values.py",
            "test_conversion_values.py",
            "test_stochastic_conversion.py",
            "test_float_values.py",
            "test_altered_spellings.py",
            "test_scalar.py",
            "test_addresses.py",
        ),
        SIMULATOR,
        wider=SIMULATOR_TESTS,
    ),
    "sim-memory": Area(
        ("simulator/isa/memory/*.[ch]", "simulator/isa/*.[ch]", "simulator/machine/*.[ch]"),
        (
            "test_addresses.py",
            "test_memory_values.py",
            "test_altered_spellings.py",
            "test_quad.py",
            "report/test_*.py",
            "test_given_back.py",
            "test_no_memory.py",
            "test_control.py",
            "test_launch_control.py",
            "test_copies.py",
            "test_shadow.py",
            "test_shrink.py",
            "test_run.py",
            "test_pipeline.py",
        ),
        (*SIMULATOR, *FEATURES),
        wider=SIMULATOR_TESTS,
    ),
    "sim-warp": Area(
        ("simulator/isa/warp/*.[ch]", "simulator/interp/**/*.[ch]", "simulator/isa/wgmma/*.[ch]"),
        (
            "test_barriers.py",
            "test_warp_values.py",
            "test_altered_spellings.py",
            "test_given_back.py",
            "test_printf.py",
            "test_control.py",
            "test_launch_control.py",
            "test_matrix.py",
            "test_block_scaled_mma.py",
            "test_quad.py",
            "test_sparse_mma.py",
            "test_sparse_wgmma.py",
            "test_library.py",
            "test_shrink.py",
            "report/test_counters.py",
            "test_wgmma.py",
            "test_exit.py",
            "test_pipeline.py",
        ),
        SIMULATOR,
        wider=SIMULATOR_TESTS,
    ),
    "sim-async": Area(
        ("simulator/async/*.[ch]", "simulator/isa/async/*.[ch]"),
        (
            "simulator/asynchronous/test_*.py",
            "test_altered_spellings.py",
            "test_given_back.py",
            "test_launch_control.py",
            "test_missed_phase.py",
            "test_each_finding.py",
            "test_findings_words.py",
            "test_features.py",
        ),
        (*SIMULATOR, *FEATURES),
        wider=SIMULATOR_TESTS,
    ),
    "sim-clock": Area(
        ("simulator/clock/**/*.[ch]", "simulator/async/timed.c", "simulator/interp/warps/timed.c"),
        ("simulator/clock/test_*.py", "simulator/clock/rings/test_*.py", "test_given_back.py"),
        SIMULATOR,
        wider=SIMULATOR_TESTS,
    ),
    "sim-hazard": Area(
        ("simulator/hazard/**/*.[ch]",),
        (
            "test_each_finding.py",
            "test_shadow.py",
            "test_given_back.py",
            "simulator/hazard/**/test_*.py",
            "test_findings_words.py",
            "test_control.py",
            "test_launch_control.py",
        ),
        SIMULATOR,
        wider=SIMULATOR_TESTS,
    ),
    "sim-tensor": Area(
        ("simulator/tensorcore/**/*.[ch]", "simulator/isa/tcgen05/*.[ch]"),
        (
            "test_formats.py",
            "test_descriptor.py",
            "test_tmem.py",
            "test_tcgen05.py",
            "test_sparse_tcgen05.py",
            "test_mma_arith.py",
            "test_altered_spellings.py",
            "test_recorded.py",
            "test_spellings.py",
            "kernels/test_kernel.py",
            "kernels/test_kernel_ts.py",
        ),
        (*SIMULATOR, TENSOR_LIBRARY),
        wider=SIMULATOR_TESTS,
    ),
    "sim-runtime": Area(
        (
            "simulator/cudart/**/*.[ch]",
            "simulator/nvfp4/*.[ch]",
            "simulator/cli/*.[ch]",
            "simulator/report/*.[ch]",
            "simulator/sim.h",
            "simulator/run_status.h",
            "simulator/example/*.cu",
            "simulator/python/*.py",
            "simulator/python/ptxsim/*.py",
        ),
        (
            "simulator/cudart/test_*.py",
            "test_package.py",
            "test_structs.py",
            "test_json.py",
            "test_text_report.py",
            "test_ptxsim.py",
            "test_given_back.py",
            "test_hostile_input.py",
            "test_worked_example.py",
            "test_library.py",
            "test_features.py",
        ),
        (*SIMULATOR, *FEATURES),
        wider=SIMULATOR_TESTS,
    ),
}


def named_tests(root: Path, names: tuple[str, ...]) -> list[str]:
    """The test files of these names or patterns, in this order."""
    return matching(root, tuple(name if name.startswith((".", "tests/")) else f"tests/**/{name}" for name in names))


def matching(root: Path, patterns: tuple[str, ...]) -> list[str]:
    """The files of a checkout that patterns name, in the patterns' order."""
    found: dict[str, None] = {}
    for pattern in patterns:
        for path in sorted(root.glob(pattern)):
            if path.is_file() and "build" not in path.relative_to(root).parts[:1]:
                found[path.relative_to(root).as_posix()] = None
    return list(found)
