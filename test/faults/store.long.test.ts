import { createHash, randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { createS3Objects } from '../../src/gateway/storage/s3.ts'
import { sweepOnce } from '../gateway/storage/rig.ts'
import { answerOf, send, tally, uploadsOf } from '../support/audio-upload.ts'
import { type DemoProcess, startDemoProcess } from '../support/demo-route.ts'
import { assertStopsClean } from '../support/gateway.ts'
import { MemoryWatch, residentMiB } from '../support/process-load.ts'
import { RawClient } from '../support/raw-client.ts'
import { type Bucket, openBucket, type S3Server, startS3 } from '../support/s3-server.ts'
import { withoutServers } from '../support/servers.ts'
import { clockAhead } from '../support/virtual-clock.ts'
import { waitUntil } from '../support/wait-until.ts'
import { filledWav } from '../support/wav.ts'

/** How long the gateway lets a store do nothing. */
const WATCHDOG_MS = 5_000
const LONG = process.env.LARKWAY_TEST_LONG === '1'
const UNAVAILABLE = '503 DEPENDENCY_UNAVAILABLE'

/** A wav of which no two pieces are equal, so that one in the wrong place changes the digest. */
function noisyWav(bytes: number): Buffer {
  const wav = filledWav(bytes)
  randomBytes(bytes - 44).copy(wav, 44)
  return wav
}

/** A gateway with an empty bucket and too little memory for the bodies of these tests. */
async function startOnS3(
  t: Test,
  server: S3Server,
  options: { memoryMiB: number; config?: Readonly<Record<string, unknown>>; delayMs?: number },
): Promise<{ gateway: DemoProcess; bucket: Bucket; authorization: string }> {
  const bucket = await openBucket(t, server)
  const { memoryMiB, config = {}, delayMs = 0 } = options
  const env = { ...bucket.env, LARKWAY_MEMORY_MIB: String(memoryMiB) }
  const gateway = await startDemoProcess(t, { entries: [{ delay_ms: delayMs }], config, env })
  return { gateway, bucket, authorization: gateway.authorization.authorization }
}

async function assertEmpty(t: Test, bucket: Bucket): Promise<void> {
  await waitUntil(async () => (await bucket.contents()).length === 0)
  t.same(await bucket.contents(), [], 'no object and no open upload is left in the bucket')
}

const largest = (times: readonly number[]) => Math.round(Math.max(...times))

async function digests(t: Test, server: S3Server): Promise<void> {
  const { gateway, bucket, authorization } = await startOnS3(t, server, { memoryMiB: 8 })
  const audio = noisyWav(9_000_001)
  const uploads = uploadsOf(audio, authorization)
  for (const [kind, upload] of Object.entries(uploads)) {
    t.same(tally([await send(gateway.port, upload)]), { 200: 1 }, kind)
  }
  const together = await Promise.all(Object.values(uploads).map((upload) => send(gateway.port, upload)))
  t.same(tally(together), { 200: 4 }, 'all kinds at once')
  const expected = { sha256: createHash('sha256').update(audio).digest('hex'), bytes: audio.length }
  const calls = await gateway.calls()
  t.same(
    calls.map(({ sha256, bytes }) => ({ sha256, bytes })),
    Array(8).fill(expected),
    'the provider received the very bytes',
  )
  await assertEmpty(t, bucket)
  await assertStopsClean(t, gateway)
  t.match(gateway.log.at(-1), { bodies: { held: 0, stored: 8, failed: 0 } }, 'all went through the store')
}

const KILLED_UPLOADS = 16

async function killed(t: Test, server: S3Server): Promise<void> {
  const { gateway, bucket, authorization } = await startOnS3(t, server, { memoryMiB: 16 })
  const { raw, chunked } = uploadsOf(noisyWav(25_000_000), authorization)
  const clients = await Promise.all(
    Array.from({ length: KILLED_UPLOADS }, () => RawClient.connect(gateway.port)),
  )
  const beginning = 2_000_000
  await Promise.all(clients.map((client) => client.send(raw.head, raw.body.subarray(0, beginning))))
  await sleep(500)
  t.same(await gateway.calls(), [], 'none is whole yet')

  await server.kill()
  const killedMs = performance.now()
  for (const client of clients) void client.send(raw.body.subarray(beginning))
  const answers = await Promise.all(clients.map((client) => answerOf(client)))
  t.same(tally(answers), { [UNAVAILABLE]: KILLED_UPLOADS }, 'every client is told')
  const underWayMs = largest(answers.map(({ atMs }) => atMs - killedMs))
  t.ok(underWayMs < WATCHDOG_MS, 'sooner than of one that is silent')
  for (const client of clients) client.destroy()

  const attemptMs: number[] = []
  for (const upload of [raw, chunked, raw, chunked]) {
    const begunMs = performance.now()
    const answer = await send(gateway.port, upload)
    t.same(tally([answer]), { [UNAVAILABLE]: 1 }, 'a later one too')
    attemptMs.push(answer.atMs - begunMs)
  }
  t.ok(largest(attemptMs) < WATCHDOG_MS, 'a store that is away is found out at once')
  t.comment(`503 at most ${underWayMs} ms after the kill, ${largest(attemptMs)} ms after a later attempt`)
  t.same(await gateway.calls(), [], 'no provider was called')

  await server.restart()
  for (const upload of [raw, chunked]) {
    t.same(
      tally([await send(gateway.port, upload)]),
      { 200: 1 },
      'serves again, without a restart of the gateway',
    )
  }
  await assertEmpty(t, bucket)
  await assertStopsClean(t, gateway)
}

const FROZEN_UPLOADS = LONG ? 64 : 32
/** What the process may grow by besides bodies: heap, connections, the garbage of one collection. */
const SLACK_MIB = 64

async function frozen(t: Test, server: S3Server): Promise<void> {
  const memoryMiB = 64
  const limits = { max_audio_bytes: 72_000_000, max_request_body_bytes: 80_000_000 }
  const { gateway, bucket, authorization } = await startOnS3(t, server, { memoryMiB, config: { limits } })
  const idleMiB = residentMiB(gateway.pid)
  // Larger than all the memory, so that none can be held.
  const { raw } = uploadsOf(filledWav(70_000_000, 3), authorization)
  const clients = await Promise.all(
    Array.from({ length: FROZEN_UPLOADS }, () => RawClient.connect(gateway.port)),
  )
  const beginning = 300_000
  await Promise.all(clients.map((client) => client.send(raw.head, raw.body.subarray(0, beginning))))
  await sleep(500)
  const beforeMiB = residentMiB(gateway.pid)
  const memory = new MemoryWatch(gateway.pid)
  server.freeze()
  const frozenMs = performance.now()
  for (const client of clients) void client.send(raw.body.subarray(beginning))
  const answers = await Promise.all(clients.map((client) => answerOf(client)))
  const peakMiB = memory.stop()
  t.same(tally(answers), { [UNAVAILABLE]: FROZEN_UPLOADS }, 'every client is told')
  const times = answers.map(({ atMs }) => atMs - frozenMs)
  t.ok(Math.min(...times) > WATCHDOG_MS / 2, 'the store was given its time')
  t.ok(largest(times) < WATCHDOG_MS + 4_000, 'and no more')
  const boundMiB = 1.1 * memoryMiB + FROZEN_UPLOADS + SLACK_MIB
  t.ok(peakMiB - idleMiB < boundMiB, `memory grows by less than ${Math.round(boundMiB)} MiB`)
  t.comment(
    `503 ${Math.round(Math.min(...times))} to ${largest(times)} ms after the freeze; resident memory: ` +
      `${[idleMiB, beforeMiB, peakMiB].map(Math.round).join(', ')} MiB when idle, before the freeze, at its peak`,
  )
  for (const client of clients) client.destroy()

  server.thaw()
  const { raw: length, chunked } = uploadsOf(filledWav(20_000_000, 3), authorization)
  const after = await Promise.all(
    [length, chunked, length, chunked].map((upload) => send(gateway.port, upload)),
  )
  t.same(tally(after), { 200: 4 }, 'serves again, without a restart of the gateway')
  await assertEmpty(t, bucket)
  await assertStopsClean(t, gateway)
}

const LEAVING_CLIENTS = LONG ? 100 : 50

/** Leaves in the middle of the body, behind its last byte, or while the provider works. */
async function leave(port: number, bytes: Buffer, at: number): Promise<void> {
  const client = await RawClient.connect(port)
  await Promise.race([client.send(bytes.subarray(0, Math.round(bytes.length * at))), sleep(2_000)])
  await sleep(Math.random() * 120)
  if (Math.random() < 0.5) client.socket.resetAndDestroy()
  else client.destroy()
}

async function leaving(t: Test, server: S3Server): Promise<void> {
  const { gateway, bucket, authorization } = await startOnS3(t, server, { memoryMiB: 8, delayMs: 50 })
  const uploads = Object.values(uploadsOf(filledWav(6_000_000, 5), authorization))
  let left = LEAVING_CLIENTS
  const client = async () => {
    while (left > 0) {
      left -= 1
      const { head, body } = uploads[left % uploads.length]!
      await leave(gateway.port, Buffer.concat([head, body]), left % 3 === 0 ? 1 : Math.random())
    }
  }
  await Promise.all(Array.from({ length: 10 }, client))
  await sleep(1_000)
  await assertEmpty(t, bucket)
  const { status } = await send(gateway.port, uploads[0]!)
  t.equal(status, 200, 'the server still answers')
  await assertStopsClean(t, gateway)
  await assertEmpty(t, bucket)
}

const HOUR_MS = 60 * 60_000

async function crashed(t: Test, server: S3Server): Promise<void> {
  const { gateway, bucket, authorization } = await startOnS3(t, server, { memoryMiB: 8, delayMs: 60_000 })
  const { raw, multipart, chunked } = uploadsOf(filledWav(12_000_000, 9), authorization)
  // Two bodies that are stored while the provider works, and one of each kind that is half there.
  for (const [{ head, body }, share] of [
    [raw, 1],
    [multipart, 1],
    [raw, 0.6],
    [chunked, 0.6],
  ] as const) {
    const client = await RawClient.connect(gateway.port)
    await client.send(head, body.subarray(0, Math.round(body.length * share)))
  }
  const left = async () => {
    const contents = await bucket.contents()
    const uploads = contents.filter((key) => key.endsWith('(open upload)')).length
    return { objects: contents.length - uploads, uploads }
  }
  const occupied = { objects: 2, uploads: 1 }
  const isOccupied = async () => isDeepStrictEqual(await left(), occupied)
  t.ok(await waitUntil(isOccupied), 'two objects and an open upload')
  await gateway.signal('SIGKILL')
  await sleep(500)
  t.same(await left(), occupied, 'a body of known length that was cut is no object')

  const env = { ...bucket.env, LARKWAY_MEMORY_MIB: '8' }
  const next = await startDemoProcess(t, { env, dataFolder: gateway.dataFolder })
  const upload = uploadsOf(filledWav(12_000_000, 9), next.authorization.authorization).raw
  t.same(tally([await send(next.port, upload)]), { 200: 1 }, 'the next process serves')
  await assertStopsClean(t, next)
  t.same(await left(), occupied, 'what is young may be of another node')
  const objects = createS3Objects({ ...server, bucket: bucket.env.S3_BUCKET ?? '' })
  t.teardown(() => objects.close())
  const log = pino({ level: 'silent' })
  await sweepOnce({ objects, log, alone: false, clock: clockAhead(HOUR_MS + 5_000) })
  t.same(await bucket.contents(), [], 'an hour later it is nobody’s, and swept')
}

t.test('a gateway on a real S3 server', { skip: withoutServers, timeout: 240_000 }, async (t) => {
  const server = await startS3(t)
  await t.test('every kind of body comes through whole', (t) => digests(t, server))
  await t.test(`${LEAVING_CLIENTS} clients that leave at any moment`, (t) => leaving(t, server))
  await t.test('kill -9 of the gateway under uploads', (t) => crashed(t, server))
  await t.test(`a store that is killed under ${KILLED_UPLOADS} uploads`, (t) => killed(t, server))
  await t.test(`a store that freezes under ${FROZEN_UPLOADS} uploads`, (t) => frozen(t, server))
})
