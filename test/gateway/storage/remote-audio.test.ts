import t from 'tap'
import { GatewayError } from '../../../src/contracts/errors.ts'
import type { FetchAudio, RemoteAudioOptions } from '../../../src/contracts/remote-audio.ts'
import { createRemoteAudio } from '../../../src/gateway/storage/remote-audio.ts'
import { noise } from '../../support/bodies.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'
import { waitUntil } from '../../support/wait-until.ts'
import { bytesOf, createRig, keysOf, MIB } from './rig.ts'

const OPTIONS: RemoteAudioOptions = {
  domains: ['good.example'],
  maxBytes: 25 * MIB,
  workspace: 'acme',
  signal: new AbortController().signal,
}

/** A host that sends `body` in chunks. @param asked called before each chunk, with how many went before */
function hostOf(
  body: Uint8Array,
  asked: (sent: number) => unknown = () => {},
  chunkBytes = 100_000,
): FetchAudio {
  return async () => ({
    length: body.length,
    mediaType: 'audio/wav',
    chunks: (async function* () {
      for (let at = 0; at < body.length; at += chunkBytes) {
        await asked(at / chunkBytes)
        yield Uint8Array.from(body.subarray(at, at + chunkBytes))
      }
    })(),
  })
}

for (const budgetBytes of [64 * MIB, 2 * MIB]) {
  t.test(`audio of a URL goes into the store, with a budget of ${budgetBytes} bytes`, async (t) => {
    const { spool, objects, budget } = await createRig(t, { budgetBytes })
    const body = noise(9 * MIB + 5)
    const { fetch } = createRemoteAudio({ spool, fetchAudio: hostOf(body) })
    const { audio, release } = await fetch('https://good.example/a', OPTIONS)
    t.match(audio, { source: { kind: 'object', key: /^spool\// } })
    t.equal(budget.used, 0, 'none of it is held')
    t.match(audio, { offset: 0, length: body.length, decodedBytes: body.length, mediaType: 'audio/wav' })
    const stored = await bytesOf({ source: audio.source, length: audio.length }, objects)
    t.ok(stored.equals(body))
    release()
    release()
    await spool.close()
    t.equal(budget.used, 0)
    t.same(await keysOf(objects), [])
  })
}

t.test('what breaks off leaves nothing, and is told as it came', async (t) => {
  for (const budgetBytes of [64 * MIB, 2 * MIB]) {
    const { spool, objects, budget } = await createRig(t, { budgetBytes })
    const failure = new GatewayError('AUDIO_URL_FETCH_FAILED')
    const breaks = (sent: number) => {
      if (sent === 40) throw failure
    }
    const { fetch } = createRemoteAudio({ spool, fetchAudio: hostOf(noise(9 * MIB), breaks) })
    const refused = await fetch('https://good.example/a', OPTIONS).catch((error: unknown) => error)
    t.equal(refused, failure)
    t.ok(await waitUntil(() => spool.stats().uploading === 0))
    await spool.close()
    t.equal(budget.used, 0)
    t.same(await keysOf(objects), [])
  }
})

t.test('the host is read only as fast as the audio finds a place', async (t) => {
  const clock = new VirtualClock()
  const { spool, budget, open } = await createRig(t, { budgetBytes: 2 * MIB, uploadsMax: 1, clock })
  const other = open(3 * MIB)
  const started = other.start()
  await clock.advance(1_000)
  await started
  let asked = 0
  let left = 0
  const chunks: AsyncIterableIterator<Uint8Array> = {
    [Symbol.asyncIterator]: () => chunks,
    async next() {
      asked += 1
      return { value: undefined, done: true }
    },
    async return() {
      left += 1
      return { value: undefined, done: true }
    },
  }
  const fetchAudio: FetchAudio = async () => ({ length: 9 * MIB, mediaType: 'audio/wav', chunks })
  const { fetch } = createRemoteAudio({ spool, fetchAudio })
  const fetching = fetch('https://good.example/a', OPTIONS).catch((error: unknown) => error)
  await clock.advance(3_000)
  t.match(await fetching, { code: 'OVERLOADED' })
  t.equal(asked, 0, 'nothing was read of a host whose audio has no place')
  t.equal(left, 1, 'and it is let go')
  await other.abort()
  t.equal(budget.used, 0)
})

t.test('audio for a job goes into an object of the job, whatever memory there is', async (t) => {
  const { spool, objects, budget } = await createRig(t)
  const body = noise(3 * MIB + 5)
  const { fetch } = createRemoteAudio({ spool, fetchAudio: hostOf(body) })
  const { audio, release } = await fetch('https://good.example/a', { ...OPTIONS, job: 'tj_1' })
  t.match(audio, { source: { kind: 'object', key: /^job\/acme\/tj_1\/[0-9a-f]{16}$/ }, length: body.length })
  const stored = await bytesOf({ source: audio.source, length: audio.length }, objects)
  t.ok(stored.equals(body))
  t.equal(budget.used, 0)
  release()
  await spool.close()
  t.same(await keysOf(objects), [])

  const failure = new GatewayError('AUDIO_URL_FETCH_FAILED')
  const breaks = (sent: number) => {
    if (sent === 20) throw failure
  }
  const broken = createRemoteAudio({ spool, fetchAudio: hostOf(body, breaks) })
  const refused = broken.fetch('https://good.example/a', { ...OPTIONS, job: 'tj_1' })
  t.equal(await refused.catch((error: unknown) => error), failure)
  t.ok(await waitUntil(() => spool.stats().uploading === 0))
  t.same(await keysOf(objects), [])
  t.equal(budget.used, 0)
})
