import { setTimeout as sleep } from 'node:timers/promises'
import type { TLSSocket } from 'node:tls'
import t from 'tap'
import { GatewayError } from '../../../src/contracts/errors.ts'
import type { FetchAudio } from '../../../src/contracts/remote-audio.ts'
import { rejected } from '../../../src/gateway/outbound/fetch-failure.ts'
import { fetchFrom, headOf } from '../../support/audio-fetch.ts'
import { sha256 } from '../../support/digests.ts'
import { hearingRig, SOUND } from '../../support/job-rig.ts'
import { waitUntil } from '../../support/wait-until.ts'
import { filledWav } from '../../support/wav.ts'

const AUDIO = { url: 'https://good.example/a.mp3?signature=canary' }
const DOMAINS = { domains: ['good.example'] }

function send(socket: TLSSocket, bytes = SOUND): void {
  socket.write(headOf(bytes.length))
  socket.end(bytes)
}

const refuse = (status: number) => (socket: TLSSocket) =>
  socket.end(`HTTP/1.1 ${status} Sorry\r\nContent-Length: 0\r\n\r\n`)

t.test('audio by URL is fetched into an object of the job, heard, and deleted', async (t) => {
  const { fetchAudio, host } = await fetchFrom(t, (socket) => send(socket))
  const { rig, upstream } = await hearingRig(t, { fetchAudio, ...DOMAINS })
  const seen: string[][] = []
  upstream.behave('ear', { before: async () => seen.push(await rig.keys()) })
  rig.run()
  const id = await rig.hear(AUDIO)
  t.match(await rig.ended(id), { status: 'succeeded' })
  t.equal(upstream.received[0]?.sha256, sha256(SOUND))
  t.equal(host.requests.length, 1)
  t.match(seen[0]?.join(), new RegExp(`^job/acme/${id}/`))
  t.ok(await waitUntil(async () => (await rig.keys()).length === 0))
  t.equal(rig.memoryUsed(), 0)
  t.notMatch(JSON.stringify(rig.lines), /canary|good\.example/)
})

t.test('a host that fails is asked three times in all', async (t) => {
  const { fetchAudio, host } = await fetchFrom(t, refuse(503))
  const { rig } = await hearingRig(t, { fetchAudio, ...DOMAINS })
  rig.run()
  const job = await rig.ended(await rig.hear(AUDIO))
  t.match(job, { status: 'failed', fence: 1, retries: 0, error: { code: 'AUDIO_URL_FETCH_FAILED' } })
  t.equal(host.requests.length, 3)
})

t.test('and one that answers at the third time is heard', async (t) => {
  const { fetchAudio, host } = await fetchFrom(t, (socket, _, index) =>
    index < 2 ? void socket.destroy() : send(socket),
  )
  const { rig } = await hearingRig(t, { fetchAudio, ...DOMAINS })
  rig.run()
  t.match(await rig.ended(await rig.hear(AUDIO)), { status: 'succeeded', fence: 1 })
  t.equal(host.requests.length, 3)
})

t.test('a host that the DNS does not know for a moment is asked for again', async (t) => {
  const { fetchAudio, host } = await fetchFrom(t, (socket) => send(socket))
  for (const [failures, status] of [
    [2, 'succeeded'],
    [3, 'failed'],
  ] as const) {
    let tries = 0
    const unresolved: FetchAudio = async (url, options) => {
      tries += 1
      if (tries <= failures) throw rejected('unresolvable')
      return await fetchAudio(url, options)
    }
    const { rig } = await hearingRig(t, { fetchAudio: unresolved, ...DOMAINS })
    rig.run()
    const job = await rig.ended(await rig.hear(AUDIO))
    t.match(job, { status, fence: 1 })
    t.equal(tries, 3)
    if (status === 'failed') t.match(job.error, { details: { reason: 'unresolvable' } })
  }
  t.equal(host.requests.length, 1)
})

t.test('what is refused is asked for once', async (t) => {
  const { fetchAudio, host } = await fetchFrom(t, refuse(404))
  const { rig, upstream } = await hearingRig(t, { fetchAudio, ...DOMAINS })
  rig.run()
  const job = await rig.ended(await rig.hear(AUDIO))
  t.match(job.error, { code: 'AUDIO_URL_REJECTED', details: { reason: 'status' } })
  t.equal(host.requests.length, 1)
  t.equal(upstream.received.length, 0)
})

t.test('where may be fetched from is asked again when the job runs', async (t) => {
  const { fetchAudio, host } = await fetchFrom(t, (socket) => send(socket))
  const { rig } = await hearingRig(t, { fetchAudio })
  rig.run()
  const refused = await rig.ended(await rig.hear(AUDIO))
  t.match(refused.error, { code: 'AUDIO_URL_REJECTED', details: { reason: 'host_not_allowed' } })
  t.equal(host.connections.made, 0)
  await rig.services.state.settings.putAudioUrlDomains('acme', ['good.example'])
  t.match(await rig.ended(await rig.hear(AUDIO)), { status: 'succeeded' })
})

t.test('the limits of audio by URL hold: bytes, seconds, format', async (t) => {
  const limits = { max_audio_url_bytes: 40_000, max_audio_seconds: 1 }
  const sounds = [Buffer.alloc(40_001, 1), Buffer.alloc(40_000, 1), filledWav(40_000, 1, 8_000)]
  const { fetchAudio } = await fetchFrom(t, (socket, _, index) => send(socket, sounds[index]))
  const { rig, upstream } = await hearingRig(t, { fetchAudio, limits, ...DOMAINS })
  rig.run()
  const codes = ['AUDIO_TOO_LARGE', 'UNSUPPORTED_AUDIO_FORMAT', 'AUDIO_TOO_LONG']
  for (const code of codes)
    t.match(await rig.ended(await rig.hear(AUDIO)), { status: 'failed', error: { code } })
  t.equal(upstream.received.length, 0)
  t.ok(await waitUntil(async () => (await rig.keys()).length === 0))
})

t.test('whoever takes a job over finds the audio there', async (t) => {
  const { fetchAudio, host } = await fetchFrom(t, (socket) => send(socket))
  const { rig, upstream } = await hearingRig(t, { fetchAudio, ...DOMAINS })
  upstream.behave('ear', { before: () => sleep(60_000, undefined, { ref: false }) })
  const first = rig.run()
  const id = await rig.hear(AUDIO)
  t.ok(await waitUntil(() => upstream.received.length === 1))
  await first.stop(0)
  upstream.behave('ear', {})
  rig.run()
  t.match(await rig.ended(id), { status: 'succeeded', fence: 2 })
  t.equal(host.requests.length, 1)
  t.equal(upstream.received[1]?.sha256, sha256(SOUND))
  t.ok(await waitUntil(async () => (await rig.keys()).length === 0))
})

t.test('and so does its next try, and that of an operator fetches again', async (t) => {
  const { fetchAudio, host } = await fetchFrom(t, (socket) => send(socket))
  const { rig, upstream } = await hearingRig(t, { fetchAudio, ...DOMAINS })
  upstream.behave('ear', { status: 500 })
  rig.run()
  const id = await rig.hear(AUDIO, 'queue')
  t.match(await rig.ended(id), { status: 'failed', retries: 3 })
  t.equal(upstream.received.length, 4)
  t.equal(host.requests.length, 1)
  t.ok(await waitUntil(async () => (await rig.keys()).length === 0))
  upstream.behave('ear', {})
  await rig.jobs.retry(id)
  rig.signals.queued()
  await rig.reached(id, ({ status }) => status === 'succeeded')
  t.equal(host.requests.length, 2)
})

t.test('what was fetched goes with a job that is cancelled before its next try, or purged', async (t) => {
  const { fetchAudio } = await fetchFrom(t, (socket) => send(socket))
  const { rig, upstream } = await hearingRig(t, { fetchAudio, ...DOMAINS })
  upstream.behave('ear', { status: 500 })
  rig.run({ timing: { retryMs: [60_000] } })
  const ids = [await rig.hear(AUDIO), await rig.hear(AUDIO)]
  for (const id of ids) await rig.reached(id, ({ retries }) => retries === 1)
  t.equal((await rig.keys()).length, 2)
  const [cancelled, purged] = [await rig.cancel(ids[0]!, true), await rig.cancel(ids[1]!, true)]
  t.match([cancelled, purged], [{ status: 'cancelled' }, { status: 'cancelled' }])
  await rig.objects.removeInput(cancelled!)
  t.match(await rig.keys(), [new RegExp(`^job/acme/${purged?.id}/`)], 'and nothing of any other job')
  await rig.objects.removeAll(purged!)
  t.same(await rig.keys(), [])
})

t.test('a state that does not tell where may be fetched from returns the job', async (t) => {
  const { fetchAudio } = await fetchFrom(t, (socket) => send(socket))
  const { rig } = await hearingRig(t, { fetchAudio, ...DOMAINS })
  let failures = 2
  const audioUrlDomains = async () => {
    failures -= 1
    if (failures >= 0) throw new GatewayError('DEPENDENCY_UNAVAILABLE')
    return []
  }
  rig.run({ settings: { audioUrlDomains } })
  t.match(await rig.ended(await rig.hear(AUDIO)), { status: 'succeeded', returns: 2 })
})
