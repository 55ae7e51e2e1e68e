import { bareUws, type Found, larkway } from '../candidates.ts'
import { larkwayCached, larkwayCachedSpeech } from '../larkway.ts'
import { sha256 } from '../load/request.ts'
import { SPEECH } from '../upstream-replies.ts'
import { type Scenario, sort } from './scenario.ts'
import { ME_KIND, SPEECH_KIND, type TinyKind, tinyTrial } from './tiny.ts'

const INPUT = 'Hello.'
const DEFAULT_BUDGET_MIB = 256
/** Size of the answer to `GET /v1/me`, and how far it may be from that. */
const ME_BYTES = 1_024
const ME_BYTES_OFF = 64

/** Load of calls whose audio is there. */
export const HIT = 'POST /openai/v1/audio/speech, hit'

const LARKWAY_KINDS: readonly TinyKind[] = [
  {
    ...ME_KIND,
    isRight: (body) => ME_KIND.isRight(body) && Math.abs(body.length - ME_BYTES) <= ME_BYTES_OFF,
  },
  SPEECH_KIND,
  {
    load: HIT,
    generator: 'requests',
    request: larkwayCachedSpeech(INPUT),
    isRight: (body) => sha256(Buffer.from(body, 'latin1')) === sha256(SPEECH),
  },
]

/** The same bytes to and from a server that does nothing: what they cost is the difference of the two. */
const BARE_KINDS: readonly TinyKind[] = [
  {
    ...ME_KIND,
    request: { ...ME_KIND.request, path: `/bytes/${ME_BYTES}` },
    isRight: (body) => body.length === ME_BYTES,
  },
  {
    load: HIT,
    generator: 'requests',
    request: { ...larkwayCachedSpeech(INPUT), path: `/bytes/${SPEECH.length}` },
    isRight: (body) => body.length === SPEECH.length,
  },
]

/** Cost of giving speech again, beside the least that a call costs, and beside having it made. */
export const cache: Scenario = {
  name: 'cache',
  title: 'Speech that is kept',
  cpuUnit: 'us/request',
  network: 'system',
  rounds: 9,
  // A hit takes a few microseconds more than `GET /v1/me`, by which two processes may differ, too.
  generations: 3,
  upstream: { program: 'upstream.ts', args: [] },

  async plan({ quick }) {
    const seconds = quick ? { warmUp: 1, run: 0.5 } : { warmUp: 4, run: 0.5 }
    const server = larkway({
      name: 'larkway',
      label: 'Larkway',
      memoryMib: DEFAULT_BUDGET_MIB,
      configuration: larkwayCached,
    })
    const of = (found: Found, kinds: readonly TinyKind[]) => kinds.map((kind) => [found, kind] as const)
    const { found, skipped } = await sort([...of(server, LARKWAY_KINDS), ...of(bareUws(), BARE_KINDS)])
    return { trials: found.map(([candidate, kind]) => tinyTrial(candidate, kind, seconds)), skipped }
  },
}
