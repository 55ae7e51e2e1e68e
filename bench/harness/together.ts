import type { Candidate } from '../candidates.ts'
import type { Lab, Served } from './lab.ts'
import { type MeasureOptions, type Session, sessionOf, summary, type Trial, toRow } from './measure.ts'
import type { Row, Run } from './result.ts'

/** `rounds`: runs of each trial in each generation. */
export interface TogetherOptions extends MeasureOptions {
  /** Servers are started anew so many times: two processes of the same program differ by some percent. */
  readonly generations: number
  /** Which trials take turns: those of one load, or all. */
  readonly turns: 'load' | 'all'
}

/**
 * Measures trials whose servers are all up at the same time, in many short runs that take turns: what a noisy machine
 * does then falls on the runs of one round alike, and the ratio within a round says more than the figures do. Servers
 * that are not asked at the moment need no CPU. One that fails is left out, and `skipped` says so.
 */
export async function measureTogether(
  lab: Lab,
  trials: readonly Trial[],
  options: TogetherOptions,
): Promise<Row[]> {
  const runs = new Map<Trial, Run[]>(trials.map((trial) => [trial, []]))
  for (let generation = 0; generation < options.generations; generation += 1)
    await measureGeneration(lab, runs, generation === 0, options)
  return [...runs].map(([trial, measured]) => toRow(trial, measured))
}

async function measureGeneration(
  lab: Lab,
  runs: Map<Trial, Run[]>,
  first: boolean,
  options: TogetherOptions,
): Promise<void> {
  const servers = new Map<string, Served>()
  const attempt = async (trial: Trial, act: () => Promise<void>) => {
    if (!runs.has(trial)) return
    try {
      await act()
    } catch (error) {
      const { message } = error as Error
      options.progress(`${trial.load}, ${trial.candidate.name}: ${message}`)
      options.skipped.push({ candidate: `${trial.candidate.name} (${trial.load})`, reason: message })
      runs.delete(trial)
    }
  }
  try {
    for (const trial of [...runs.keys()])
      await attempt(trial, async () => {
        const { candidate } = trial
        const process = processOf(candidate)
        if (!servers.has(process)) servers.set(process, await lab.serve(candidate))
      })
    const turnOf = ({ load }: Trial) => (options.turns === 'all' ? 'all' : load)
    for (const alike of Map.groupBy([...runs.keys()], turnOf).values()) {
      const act = (trial: Trial, what: (session: Session) => Promise<void>) =>
        attempt(trial, async () => {
          const served = servers.get(processOf(trial.candidate))
          if (!served) throw new Error('its server is not up')
          await what(sessionOf(lab, served, options.cpuUnit))
        })
      if (first) await verifyAll(lab, alike, act)
      for (const trial of alike) await act(trial, (session) => trial.warmUp(session))
      for (let round = 0; round < options.rounds; round += 1)
        for (const trial of round % 2 === 0 ? alike : alike.toReversed())
          await act(trial, async (session) => {
            const run = await trial.run(session)
            runs.get(trial)?.push(run)
            options.progress(`${trial.load}, ${trial.candidate.label}: ${summary(run, options.cpuUnit)}`)
          })
    }
  } finally {
    await Promise.all([...servers.values()].map(({ server }) => server.stop()))
  }
}

async function verifyAll(
  lab: Lab,
  trials: readonly Trial[],
  act: (trial: Trial, what: (session: Session) => Promise<void>) => Promise<void>,
): Promise<void> {
  await lab.upstream({ verify: true })
  for (const trial of trials) await act(trial, (session) => trial.verify(session))
  await lab.upstream({ verify: false })
}

function processOf({ within, name }: Candidate): string {
  return within ?? name
}
