import type { Candidate } from '../candidates.ts'
import type { Driven, Session, Trial } from '../harness/measure.ts'
import { larkwayMe, larkwaySpeech } from '../larkway.ts'
import type { PingReport, PingTask } from '../load/pings.ts'
import { type RequestSpec, sha256 } from '../load/request.ts'
import type { RequestReport, RequestTask } from '../load/requests.ts'
import { SPEECH } from '../upstream-replies.ts'
import { ONCE, upload } from './scenario.ts'

const CONNECTIONS = 64
const INPUT = 'Hello.'
const WARM_UP_MS_MAX = 5_000

/** A request so small that what Larkway itself does is all that there is of it. */
export interface TinyKind {
  readonly load: string
  /** The GET is answered faster than autocannon can ask. A number: due so often a second, answered or not. */
  readonly generator: 'requests' | 'autocannon' | number
  readonly request: RequestSpec
  readonly isRight: (body: string) => boolean
}

export const ME_KIND: TinyKind = {
  load: 'GET /v1/me',
  generator: 'requests',
  request: larkwayMe(),
  isRight: (body) => JSON.parse(body).limits?.max_audio_bytes === 26_214_400,
}

export const SPEECH_KIND: TinyKind = {
  load: 'POST /v1/speech',
  generator: 'autocannon',
  request: larkwaySpeech('own', INPUT),
  isRight(body) {
    const [block] = (JSON.parse(body) as { content_blocks: { base64: string }[] }).content_blocks
    return block !== undefined && sha256(Buffer.from(block.base64, 'base64')) === sha256(SPEECH)
  },
}

export const TINY_KINDS: readonly TinyKind[] = [ME_KIND, SPEECH_KIND]

/** Asks for it over and over, over 64 connections or at a rate. */
export function tinyTrial(
  candidate: Candidate,
  kind: TinyKind,
  seconds: { readonly warmUp: number; readonly run: number },
  /** A warm-up lasts until the server has answered so many: on a busy machine it takes longer. */
  warmUpRequests = 0,
): Trial {
  return {
    candidate,
    load: kind.load,
    async verify(session) {
      const { lastReply, firstFailure } = await upload(session, () => kind.request, ONCE)
      if (lastReply?.status !== 200) throw new Error(`verification: ${firstFailure}`)
      if (!kind.isRight(lastReply.body)) throw new Error(`wrong answer: ${lastReply.body.slice(0, 200)}`)
    },
    async warmUp(session) {
      const deadline = performance.now() + WARM_UP_MS_MAX
      let requests = 0
      do requests += (await drive(session, kind, seconds.warmUp)).requests
      while (requests < warmUpRequests && performance.now() < deadline)
    },
    run: (session) => session.measure(() => drive(session, kind, seconds.run)),
  }
}

async function drive(
  { lab, port }: Session,
  { generator, request }: TinyKind,
  seconds: number,
): Promise<Driven> {
  if (typeof generator === 'number') {
    const task: PingTask = { port, request, perSecond: generator, seconds }
    const report = await lab.generate<PingTask, PingReport>('pings', task)
    return { ...report, requests: report.latencyMs.count, bodyBytes: 0 }
  }
  const task: RequestTask = { port, request, connections: CONNECTIONS, seconds }
  return { ...(await lab.generate<RequestTask, RequestReport>(generator, task)), bodyBytes: 0 }
}
