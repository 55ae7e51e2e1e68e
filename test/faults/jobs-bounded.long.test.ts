import { createHash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { multipart } from '../support/bodies.ts'
import { startFleet } from '../support/fleet.ts'
import { jobTenants } from '../support/fleet-jobs.ts'
import { assertStopsClean } from '../support/gateway.ts'
import { MemoryWatch, residentMiB } from '../support/process-load.ts'
import { RawClient } from '../support/raw-client.ts'
import { startUpstream } from '../support/upstream/upstream.ts'
import { waitUntil } from '../support/wait-until.ts'
import { filledWav } from '../support/wav.ts'

t.setTimeout(400_000)

const MEMORY_MIB = 32
const JOBS = process.env.LARKWAY_TEST_LONG === '1' ? 200 : 24
const AUDIO_BYTES = 20_000_000
/** Of one server, whose audio altogether is many times its budget. */
const ENV = { LARKWAY_MEMORY_MIB: `${MEMORY_MIB}`, LARKWAY_JOBS: '16', LARKWAY_JOBS_PER_WORKSPACE: '16' }
/**
 * What the heap has beside what is counted, and half a MiB for each connection, of which the kernel hands over no more
 * at a time. The audio of those jobs that run at a time would be over it.
 */
const OVERHEAD_MIB = 90 + JOBS / 2
const ENDED_MS = 120_000

/** A wav like no other. */
function wavOf(at: number): Buffer {
  const wav = filledWav(AUDIO_BYTES, at)
  wav.writeUInt32LE(at, 100)
  return wav
}

/** Forms in which a job's audio can come. */
const FORMS = ['multipart', 'raw', 'base64', 'chunked'] as const
type Form = (typeof FORMS)[number]

/** The submission of a job as the bytes that go over the wire. */
function submissionOf(form: Form, wav: Buffer, authorization: string): Buffer {
  const { type, body, framing } = FRAMED[form](wav)
  const head =
    `POST /v1/transcription/jobs HTTP/1.1\r\nHost: a\r\nAuthorization: ${authorization}\r\n` +
    `Content-Type: ${type}\r\n${framing ?? `Content-Length: ${body.length}`}\r\n\r\n`
  return Buffer.concat([Buffer.from(head), body])
}

interface Framed {
  readonly type: string
  readonly body: Buffer
  /** Absent: the length is told. */
  readonly framing?: string
}

const FRAMED: Readonly<Record<Form, (wav: Buffer) => Framed>> = {
  multipart(wav) {
    const { contentType: type, body } = multipart([
      { name: 'language', body: 'en' },
      { name: 'file', filename: 'a.wav', type: 'audio/wav', body: wav },
    ])
    return { type, body }
  },
  raw: (wav) => ({ type: 'audio/wav', body: wav }),
  base64: (wav) => ({
    type: 'application/json',
    body: Buffer.from(`{"audio":{"base64":"${wav.toString('base64')}"}}`),
  }),
  chunked(wav) {
    const size = Buffer.from(`${wav.length.toString(16)}\r\n`)
    const body = Buffer.concat([size, wav, Buffer.from('\r\n0\r\n\r\n')])
    return { type: 'audio/wav', body, framing: 'Transfer-Encoding: chunked' }
  },
}

/** Hands a job in on a connection of its own. @returns its id; or what was said instead, with when to come again */
async function upload(
  port: number,
  bytes: Buffer,
): Promise<{ readonly id: string } | { readonly refusal: string; readonly againMs: number }> {
  const client = await RawClient.connect(port)
  try {
    const answering = client.response({ timeoutMs: 120_000 })
    void client.send(bytes)
    const response = await answering
    const body = JSON.parse(response?.body.toString() ?? '{}') as {
      readonly job_id?: string
      readonly error?: { readonly code: string }
    }
    if (body.job_id !== undefined) return { id: body.job_id }
    const againMs = 1_000 * Number(response?.headers['retry-after'] ?? 1)
    return { refusal: `${response?.status} ${body.error?.code}`, againMs }
  } finally {
    client.destroy()
  }
}

t.test(`${JOBS} jobs of 20 MB at once with ${MEMORY_MIB} MiB`, async (t) => {
  const upstream = await startUpstream(t)
  // Those at the provider hold what they hold for a while.
  upstream.behave('whisper-1', { before: () => sleep(300) })
  const fleet = await startFleet(t, { ...jobTenants({ upstreamUrl: upstream.url }), env: ENV })
  const gateway = fleet.node()
  const state = await fleet.openState()
  const idleMiB = residentMiB(gateway.pid)
  const memory = new MemoryWatch(gateway.pid)

  const acknowledged = new Map<string, string>()
  const refusals: Record<string, number> = {}
  const handIn = async (at: number): Promise<void> => {
    const wav = wavOf(at)
    const bytes = submissionOf(FORMS[at % FORMS.length] ?? 'raw', wav, fleet.authorizationOf('ws_0'))
    for (;;) {
      const answer = await upload(gateway.port, bytes)
      if ('id' in answer) {
        acknowledged.set(answer.id, createHash('sha256').update(wav).digest('hex'))
        return
      }
      refusals[answer.refusal] = (refusals[answer.refusal] ?? 0) + 1
      if (answer.refusal !== '503 OVERLOADED') throw new Error(answer.refusal)
      await sleep(answer.againMs * (0.5 + Math.random()))
    }
  }
  await Promise.all(Array.from({ length: JOBS }, (_, at) => handIn(at)))
  t.comment(`told to come again: ${JSON.stringify(refusals)}`)
  t.equal(acknowledged.size, JOBS)

  const all = () => Promise.all([...acknowledged.keys()].map((id) => state.jobs.get(id)))
  const ended = await waitUntil(async () => {
    await sleep(200)
    return (await all()).every((job) => job?.endedAtMs !== null)
  }, ENDED_MS)
  const peakMiB = memory.stop()
  t.ok(ended, 'all have ended')
  t.same(
    (await all()).filter((job) => job?.status !== 'succeeded').map((job) => job?.error),
    [],
    'all have succeeded',
  )
  const heard = upstream.received.map(({ sha256 }) => sha256)
  t.same(
    heard.sort(),
    [...acknowledged.values()].sort(),
    'the provider has heard the very audio of each, once',
  )

  const boundMiB = idleMiB + 1.1 * MEMORY_MIB + OVERHEAD_MIB
  t.ok(peakMiB < boundMiB, `memory stays under ${Math.round(boundMiB)} MiB`)
  t.comment(`resident memory: ${Math.round(idleMiB)} MiB when idle, ${Math.round(peakMiB)} MiB at its peak`)
  await assertStopsClean(t, gateway)
})
