import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type Candidate, larkway } from '../candidates.ts'
import type { Driven, Session, Trial } from '../harness/measure.ts'
import { larkwayMe, larkwaySpeech } from '../larkway.ts'
import { type RequestSpec, sha256 } from '../load/request.ts'
import type { RequestReport, RequestTask } from '../load/requests.ts'
import { copyUntraced } from '../untraced.ts'
import { SPEECH } from '../upstream-replies.ts'
import { ONCE, type Scenario, sort, upload } from './scenario.ts'

const CONNECTIONS = 64
const INPUT = 'Hello.'
const DEFAULT_BUDGET_MIB = 256

/** A way to run the server, and the one that it is compared with. */
interface Variant {
  readonly name: string
  readonly label: string
  /** Name of another variant; absent: it is what others are compared with. */
  readonly against?: string
  readonly env?: Readonly<Record<string, string>>
  /** Another copy of the sources, its `node_modules` beside them; absent: this one. */
  readonly source?: string
}

/** @param receiver takes traces */
function variantsOf(receiver: string): readonly Variant[] {
  return [
    { name: 'larkway-untraced', label: 'Larkway, tracing not built in', source: copyUntraced() },
    { name: 'larkway', label: 'Larkway', against: 'larkway-untraced' },
    {
      name: 'larkway-metrics',
      label: 'Larkway, metrics on',
      against: 'larkway',
      env: { LARKWAY_METRICS_PORT: '0' },
    },
    {
      name: 'larkway-tracing',
      label: 'Larkway, tracing on, all sampled',
      against: 'larkway',
      env: { OTEL_EXPORTER_OTLP_ENDPOINT: receiver },
    },
  ]
}

/** Something that takes whatever it is sent, until the process ends. @returns its origin */
async function startReceiver(): Promise<string> {
  const server = createServer((request, response) => {
    request.resume().once('end', () => response.end())
  })
  server.listen(0, '127.0.0.1').unref()
  await once(server, 'listening')
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

interface Kind {
  readonly load: string
  /** The GET is answered faster than autocannon can ask. */
  readonly generator: 'requests' | 'autocannon'
  readonly request: RequestSpec
  readonly isRight: (body: string) => boolean
}

const KINDS: readonly Kind[] = [
  {
    load: 'GET /v1/me',
    generator: 'requests',
    request: larkwayMe(),
    isRight: (body) => JSON.parse(body).limits?.max_audio_bytes === 26_214_400,
  },
  {
    load: 'POST /v1/speech',
    generator: 'autocannon',
    request: larkwaySpeech('own', INPUT),
    isRight(body) {
      const [block] = (JSON.parse(body) as { content_blocks: { base64: string }[] }).content_blocks
      return block !== undefined && sha256(Buffer.from(block.base64, 'base64')) === sha256(SPEECH)
    },
  },
]

/** What it costs to be watched: the same tiny requests, in pairs of runs that follow one another. */
export const observability: Scenario = {
  name: 'observability',
  title: 'Metrics and tracing',
  cpuUnit: 'us/request',
  network: 'system',
  rounds: 7,
  upstream: { program: 'upstream.ts', args: [] },

  async plan({ quick }) {
    const variants = variantsOf(await startReceiver()).map(({ name, label, env = {}, source, ...rest }) => {
      const place = source === undefined ? {} : { source }
      return [larkway({ name, label, memoryMib: DEFAULT_BUDGET_MIB, env, ...place }), rest] as const
    })
    const { found, skipped } = await sort<Pick<Variant, 'against'>>(variants)
    const trials = KINDS.flatMap((kind) =>
      found.map(([candidate, { against }]) => ({
        ...trial(candidate, kind, quick),
        ...(against === undefined ? {} : { against }),
      })),
    )
    return { trials, skipped }
  },
}

function trial(candidate: Candidate, kind: Kind, quick: boolean): Trial {
  return {
    candidate,
    load: kind.load,
    async verify(session) {
      const { lastReply, firstFailure } = await upload(session, () => kind.request, ONCE)
      if (lastReply?.status !== 200) throw new Error(`verification: ${firstFailure}`)
      if (!kind.isRight(lastReply.body)) throw new Error(`wrong answer: ${lastReply.body.slice(0, 200)}`)
    },
    async warmUp(session) {
      await drive(session, kind, quick ? 1 : 3)
    },
    run: (session) => session.measure(() => drive(session, kind, quick ? 1 : 4)),
  }
}

async function drive({ lab, port }: Session, { generator, request }: Kind, seconds: number): Promise<Driven> {
  const task: RequestTask = { port, request, connections: CONNECTIONS, seconds }
  return { ...(await lab.generate<RequestTask, RequestReport>(generator, task)), bodyBytes: 0 }
}
