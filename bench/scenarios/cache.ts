import { larkway } from '../candidates.ts'
import { larkwayCached, larkwayCachedSpeech } from '../larkway.ts'
import { sha256 } from '../load/request.ts'
import { SPEECH } from '../upstream-replies.ts'
import { type Scenario, sort } from './scenario.ts'
import { TINY_KINDS, type TinyKind, tinyTrial } from './tiny.ts'

const INPUT = 'Hello.'
const DEFAULT_BUDGET_MIB = 256

/** Load of calls whose audio is there. */
export const HIT = 'POST /openai/v1/audio/speech, hit'

const HIT_KIND: TinyKind = {
  load: HIT,
  generator: 'requests',
  request: larkwayCachedSpeech(INPUT),
  isRight: (body) => sha256(Buffer.from(body, 'latin1')) === sha256(SPEECH),
}

/** What it costs to give speech again, beside the least that a call costs, and beside having it made. */
export const cache: Scenario = {
  name: 'cache',
  title: 'Speech that is kept',
  cpuUnit: 'us/request',
  network: 'system',
  rounds: 7,
  upstream: { program: 'upstream.ts', args: [] },

  async plan({ quick }) {
    const seconds = quick ? { warmUp: 1, run: 1 } : { warmUp: 3, run: 2 }
    const configuration = larkwayCached
    const server = larkway({
      name: 'larkway',
      label: 'Larkway',
      memoryMib: DEFAULT_BUDGET_MIB,
      configuration,
    })
    const kinds = [...TINY_KINDS, HIT_KIND].map((kind) => [server, kind] as const)
    const { found, skipped } = await sort<TinyKind>(kinds)
    return { trials: found.map(([candidate, kind]) => tinyTrial(candidate, kind, seconds)), skipped }
  },
}
