import { fastify, larkway, renamed } from '../candidates.ts'
import type { Session, Trial } from '../harness/measure.ts'
import { larkwayBase64, larkwayMultipart } from '../larkway.ts'
import type { PingReport, PingTask } from '../load/pings.ts'
import type { BodySpec, RequestSpec } from '../load/request.ts'
import { AUDIO_BYTES } from './multipart.ts'
import { checked, ONCE, type Scenario, sort, transcript, upload, verifyAudio } from './scenario.ts'

const CONNECTIONS = 16
const BYTES_PER_SECOND = 25_000_000
const PINGS_PER_SECOND = 500

const HEALTHZ: RequestSpec = { method: 'GET', path: '/healthz', headers: {}, body: null }

interface Kind {
  readonly load: string
  readonly request: RequestSpec
  /** Its answer when it forwards nothing. */
  readonly answers?: string
}

/** Whether large bodies hold up small requests: health is asked at a fixed rate while uploads run at a steady pace. */
export const base64: Scenario = {
  name: 'base64',
  title: '25 MB audio as base64 JSON, and health beside it',
  cpuUnit: 's/GB',
  network: 'capped',
  rounds: 3,
  upstream: { program: 'upstream.ts', args: [] },

  async plan({ quick }) {
    const body: BodySpec = { kind: 'base64', audioBytes: AUDIO_BYTES }
    const load = `JSON, ${CONNECTIONS} × 25 MB/s`
    const own = larkway({ name: 'larkway', label: 'Larkway', memoryMib: 1_024 })
    const { found, skipped } = await sort<Kind>([
      [own, { load, request: larkwayBase64(AUDIO_BYTES) }],
      [
        renamed(await fastify(), 'json-parse', 'Fastify, JSON.parse, forwarded'),
        { load, request: { method: 'POST', path: '/json/transcriptions', headers: {}, body } },
      ],
      [
        renamed(await fastify(), 'json-parse-only', 'Fastify, JSON.parse, not forwarded'),
        {
          load,
          request: { method: 'POST', path: '/json/parsed', headers: {}, body },
          answers: `bytes:${AUDIO_BYTES}`,
        },
      ],
      [own, { load: `multipart, ${CONNECTIONS} × 25 MB/s`, request: larkwayMultipart(AUDIO_BYTES) }],
    ])
    const trials = found.map(([candidate, kind]): Trial => {
      const request = () => kind.request
      return {
        candidate,
        load: kind.load,
        async verify(session) {
          if (!kind.answers) return await verifyAudio(session, request, AUDIO_BYTES)
          const text = transcript(await upload(session, request, ONCE))
          if (text !== kind.answers) throw new Error(`wrong answer: ${text}`)
        },
        async warmUp(session) {
          await upload(session, request, { ...ONCE, connections: 2, leastPerConnection: quick ? 2 : 4 })
        },
        run: (session) => runBeside(session, kind, quick ? 3 : 5),
      }
    })
    return { trials, skipped }
  },
}

/** Pings an idle server, then the same one while uploads run. */
async function runBeside(session: Session, kind: Kind, seconds: number) {
  const idle = await ping(session, seconds / 2)
  let busy: PingReport | undefined
  const run = await session.measure(async () => {
    const load = {
      connections: CONNECTIONS,
      seconds,
      leastPerConnection: 1,
      bytesPerSecond: BYTES_PER_SECOND,
    }
    const [report, pings] = await Promise.all([
      upload(session, () => kind.request, load),
      ping(session, seconds),
    ])
    busy = pings
    const uploads = checked(report, kind.answers)
    if (pings.failures === 0) return uploads
    return {
      ...uploads,
      failures: uploads.failures + pings.failures,
      firstFailure: `ping: ${pings.firstFailure}`,
    }
  })
  if (!busy || idle.failures > 0) throw new Error(`pings failed: ${idle.firstFailure}`)
  const pings = {
    idleP50Ms: idle.latencyMs.p50,
    idleP99Ms: idle.latencyMs.p99,
    p50Ms: busy.latencyMs.p50,
    p99Ms: busy.latencyMs.p99,
    ownLagP99Ms: busy.ownLagMs.p99,
  }
  return { ...run, pings }
}

async function ping({ lab, port }: Session, seconds: number): Promise<PingReport> {
  const task = { port, request: HEALTHZ, perSecond: PINGS_PER_SECOND, seconds }
  return await lab.generate<PingTask, PingReport>('pings', task)
}
