import { bareUws, type Candidate, fastify, larkway, nginx, portkey, renamed } from '../candidates.ts'
import type { Driven, Session, Trial } from '../harness/measure.ts'
import { larkwayMe, larkwaySpeech } from '../larkway.ts'
import { type RequestSpec, sha256 } from '../load/request.ts'
import type { RequestReport, RequestTask } from '../load/requests.ts'
import { openaiChat, openaiSpeech, portkeyHeaders } from '../openai.ts'
import { SPEECH } from '../upstream-replies.ts'
import { ONCE, type RequestOf, type Scenario, sort, upload, WARM_UP_SECONDS } from './scenario.ts'

const CONNECTIONS = 64
const INPUT = 'Hello.'
const DEFAULT_BUDGET_MIB = 256

/** Checks one answer's body. */
type Check = (body: string) => boolean

interface Kind {
  readonly load: string
  /** The GET is answered faster than autocannon can ask, so that one has our own generator for all candidates. */
  readonly generator: 'requests' | 'autocannon'
  readonly request: RequestOf
  readonly check: Check
}

const isMe: Check = (body) => JSON.parse(body).limits?.max_audio_bytes === 26_214_400
const isStatus: Check = (body) => JSON.parse(body).status === 'ok'
const isChat: Check = (body) => JSON.parse(body).choices?.[0]?.message?.content === 'ok'
const isAudio: Check = (body) => sha256(Buffer.from(body, 'latin1')) === sha256(SPEECH)
const isEnvelope: Check = (body) => {
  const [block] = (JSON.parse(body) as { content_blocks: { base64: string }[] }).content_blocks
  return block !== undefined && sha256(Buffer.from(block.base64, 'base64')) === sha256(SPEECH)
}

/** Cost of a request that carries next to nothing. Bound by system calls, so CPU per request is the figure. */
export const small: Scenario = {
  name: 'small',
  title: 'Small requests',
  cpuUnit: 'us/request',
  network: 'system',
  rounds: 3,
  upstream: { program: 'upstream.ts', args: [] },

  async plan({ quick }) {
    const own = (name: string, label: string, logLevel: 'warn' | 'info') =>
      larkway({ name, label, memoryMib: DEFAULT_BUDGET_MIB, logLevel })
    const gets = await sort<Kind>([
      [bareUws(), get('/', isStatus)],
      [own('larkway', 'Larkway, key and envelope', 'warn'), { ...get('/', isMe), request: larkwayMe }],
      [own('larkway-logging', 'Larkway, request log on', 'info'), { ...get('/', isMe), request: larkwayMe }],
      [await nginx('tuned'), get('/', isStatus)],
      [await fastify(), get('/healthz', isStatus)],
    ])
    const posts = await sort<Kind>([
      [
        own('larkway', "Larkway, customer's account", 'warn'),
        post(() => larkwaySpeech('own', INPUT), isEnvelope),
      ],
      [
        own('larkway-platform', 'Larkway, platform account, billed', 'warn'),
        post(() => larkwaySpeech('platform', INPUT), isEnvelope),
      ],
      [
        renamed(await nginx('tuned'), 'nginx-tuned', 'nginx proxy_pass'),
        post(() => openaiSpeech(INPUT), isAudio),
      ],
      [
        renamed(await fastify(), 'fastify', 'Fastify http-proxy'),
        post(() => openaiSpeech(INPUT, '/proxy/v1/audio/speech'), isAudio),
      ],
      // Portkey 1.15.2 answers every speech request with 500 on Node 22: it changes the headers of fetch's response.
      [
        renamed(await portkey(), 'portkey', 'Portkey gateway (chat)'),
        post((port) => openaiChat(INPUT, portkeyHeaders(port)), isChat),
      ],
    ])
    const trials = [...gets.found, ...posts.found].map(([candidate, kind]) => trial(candidate, kind, quick))
    return { trials, skipped: [...gets.skipped, ...posts.skipped] }
  },
}

function get(path: string, check: Check): Kind {
  const request: RequestSpec = { method: 'GET', path, headers: {}, body: null }
  return { load: 'GET /v1/me', generator: 'requests', request: () => request, check }
}

function post(request: RequestOf, check: Check): Kind {
  return { load: 'POST /v1/speech', generator: 'autocannon', request, check }
}

function trial(candidate: Candidate, kind: Kind, quick: boolean): Trial {
  return {
    candidate,
    load: kind.load,
    async verify(session) {
      const { lastReply, firstFailure } = await upload(session, kind.request, ONCE)
      if (lastReply?.status !== 200) throw new Error(`verification: ${firstFailure}`)
      if (!kind.check(lastReply.body)) throw new Error(`wrong answer: ${lastReply.body.slice(0, 200)}`)
    },
    async warmUp(session) {
      await drive(session, kind, quick ? 1 : WARM_UP_SECONDS)
    },
    run: (session) => session.measure(() => drive(session, kind, quick ? 1 : 2)),
  }
}

async function drive({ lab, port }: Session, kind: Kind, seconds: number): Promise<Driven> {
  const task: RequestTask = {
    port,
    request: kind.request(lab.upstreamPort),
    connections: CONNECTIONS,
    seconds,
  }
  const report = await lab.generate<RequestTask, RequestReport>(kind.generator, task)
  return { ...report, bodyBytes: 0 }
}
