/** Costs of a piece of work, by the place where it is done. */
export interface Costs {
  readonly loop_us_per_mib: number
  readonly cpu_us_per_mib: number
  readonly wall_us_per_mib: number
}

const MIB = 1024 * 1024
/** Bytes per measurement, and measurements of each way; the median is reported. */
const VOLUME = 64 * MIB
const ROUNDS = 7
const WAYS = ['inline', 'worker'] as const

export type Way = (typeof WAYS)[number]

/**
 * Compares work on the event loop with the same in a thread. Rounds of the two alternate, so that a busy machine is
 * unkind to both.
 *
 * @param size bytes that each task works on
 */
export async function compareWays(
  size: number,
  tasks: { readonly inline: () => void; readonly worker: () => Promise<unknown> },
): Promise<(Costs & { readonly way: Way })[]> {
  const rounds: Record<Way, Costs[]> = { inline: [], worker: [] }
  for (let i = 0; i <= ROUNDS; i += 1) {
    for (const way of WAYS) {
      const costs = await measure(size, way === 'worker' ? tasks.worker : inTurns(tasks.inline))
      if (i > 0) rounds[way].push(costs)
    }
  }
  return WAYS.map((way) => ({ way, ...median(rounds[way]) }))
}

/** Each run with a turn of the loop after it, as backpressure demands. */
function inTurns(task: () => void): () => Promise<unknown> {
  return () => {
    task()
    return new Promise(setImmediate)
  }
}

/** One at a time. */
async function measure(size: number, task: () => Promise<unknown>): Promise<Costs> {
  const startCpu = process.cpuUsage()
  const startLoop = performance.eventLoopUtilization()
  const startMs = performance.now()
  for (let done = 0; done < VOLUME; done += size) await task()
  const wallMs = performance.now() - startMs
  const { user, system } = process.cpuUsage(startCpu)
  const { active } = performance.eventLoopUtilization(startLoop)
  const mib = VOLUME / MIB
  return {
    loop_us_per_mib: Math.round((active * 1000) / mib),
    cpu_us_per_mib: Math.round((user + system) / mib),
    wall_us_per_mib: Math.round((wallMs * 1000) / mib),
  }
}

function median(costs: Costs[]): Costs {
  return costs.sort((a, b) => a.loop_us_per_mib - b.loop_us_per_mib)[Math.floor(costs.length / 2)]!
}
