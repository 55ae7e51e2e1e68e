import { readdirSync, readFileSync } from 'node:fs'

/** CPU time that processes used, and the most memory they held. Reads /proc, so Linux only. */

/** Clock ticks per second in /proc/PID/stat: fixed at 100 for user space on Linux. */
const TICKS_PER_SECOND = 100
/** The program of the usage engine's process. */
const USAGE_ENGINE = 'engine-child'

/** A process and all its descendants. */
export function processTree(root: number): number[] {
  const parents = new Map<number, number>()
  for (const name of readdirSync('/proc')) {
    const pid = Number(name)
    if (!Number.isInteger(pid)) continue
    const fields = statFields(pid)
    if (fields) parents.set(pid, Number(fields[1]))
  }
  const tree = [root]
  for (const pid of tree) for (const [child, parent] of parents) if (parent === pid) tree.push(child)
  return tree
}

/**
 * CPU seconds of a process tree so far. The scheduler's nanoseconds of every thread that lives; where threads ended
 * meanwhile, the kernel's sum for the process, which counts them too but in steps of 10 ms. Processes that have ended
 * count with the one that had started them.
 */
export function cpuSeconds(root: number): number {
  let seconds = 0
  for (const pid of processTree(root)) {
    const { own, ended } = processSeconds(pid)
    seconds += Math.max(threadSeconds(pid), own - 0.02) + ended
  }
  return seconds
}

function threadSeconds(pid: number): number {
  let nanoseconds = 0
  for (const thread of listing(`/proc/${pid}/task`)) {
    const text = textOf(`/proc/${pid}/task/${thread}/schedstat`)
    if (text) nanoseconds += Number(text.split(' ')[0])
  }
  return nanoseconds / 1e9
}

/** The kernel's sums for a process, and for those of its descendants that have ended; see proc_pid_stat(5). */
function processSeconds(pid: number): { readonly own: number; readonly ended: number } {
  const [user = 0, system = 0, endedUser = 0, endedSystem = 0] = (statFields(pid) ?? [])
    .slice(11, 15)
    .map(Number)
  return { own: (user + system) / TICKS_PER_SECOND, ended: (endedUser + endedSystem) / TICKS_PER_SECOND }
}

/**
 * The sum of the peaks of resident memory of a process tree, in MiB: never below the true peak of the whole. The usage
 * engine is left out, as it comes and goes by a clock of its own and has a bound of its own.
 */
export function peakRssMib(root: number): number {
  return memoryMib(processTree(root), 'VmHWM')
}

/**
 * Resident memory of a process tree at this moment, in MiB.
 *
 * @param launched leaves the first process out where it has others: it only started them and waits
 */
export function rssMib(root: number, { launched }: { readonly launched: boolean }): number {
  const [launcher, ...rest] = processTree(root)
  return memoryMib(launched && rest.length > 0 ? rest : [launcher ?? root, ...rest], 'VmRSS')
}

function memoryMib(pids: readonly number[], field: 'VmHWM' | 'VmRSS'): number {
  let kib = 0
  for (const pid of pids) {
    if (textOf(`/proc/${pid}/cmdline`)?.includes(USAGE_ENGINE)) continue
    const status = textOf(`/proc/${pid}/status`) ?? ''
    kib += Number(new RegExp(`${field}:\\s+(\\d+)`).exec(status)?.[1] ?? 0)
  }
  return kib / 1024
}

/** The fields after the parenthesized name in /proc/PID/stat: state, parent, … */
function statFields(pid: number): string[] | null {
  const text = textOf(`/proc/${pid}/stat`)
  return text ? text.slice(text.lastIndexOf(')') + 2).split(' ') : null
}

function listing(path: string): string[] {
  try {
    return readdirSync(path)
  } catch {
    return []
  }
}

/** Null when the process has ended. */
function textOf(path: string): string | null {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return null
  }
}
