import { getEventListeners } from 'node:events'
import { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t, { type Test } from 'tap'
import type { FetchAudio } from '../../../src/contracts/remote-audio.ts'
import type { Clock } from '../../../src/contracts/time.ts'
import { createAudioFetcher, type FetchDependencies } from '../../../src/gateway/outbound/fetch-audio.ts'
import {
  AUTHORITY,
  answerWith,
  failureOf,
  fetched,
  fetchFrom,
  fetchOptions,
  headOf,
  readAll,
  URL_OF_AUDIO,
} from '../../support/audio-fetch.ts'
import { drip, SLOW_HOSTS, type SlowHost } from '../../support/guard-hosts.ts'
import { whenStill } from '../../support/stands-still.ts'
import { dialInto, serveTcp, type TlsHost } from '../../support/tls-host.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'
import { waitUntil } from '../../support/wait-until.ts'

t.setTimeout(60_000)

const MIB = 1024 * 1024

setFlagsFromString('--expose-gc')
const collectGarbage: () => void = runInNewContext('gc')

/** A host that takes connections and says nothing, not even in TLS. */
async function fetchFromSilence(t: Test, parts: FetchDependencies = {}) {
  const host = await serveTcp(t)
  const { dial } = dialInto({ '8.8.8.8': host })
  const fetchAudio = createAudioFetcher({
    resolve: async () => ['8.8.8.8'],
    dial,
    ca: AUTHORITY.cert,
    ...parts,
  })
  return { fetchAudio, host }
}

t.test('how long a host may take', async (t) => {
  // By default, seconds.
  const limits = { connectMs: 5, headMs: 10, bodyMs: 10 }
  const hosts: TlsHost['connections'][] = []
  const fetcherOf = async ({ host }: SlowHost, clock: Clock): Promise<FetchAudio> => {
    if (host === 'nowhere')
      return createAudioFetcher({ resolve: async () => ['8.8.8.8'], dial: () => new Socket(), clock })
    const slow = host === 'tcp' ? await fetchFromSilence(t, { clock }) : await fetchFrom(t, host, { clock })
    hosts.push(slow.host.connections)
    return slow.fetchAudio
  }
  await Promise.all(
    Object.entries(SLOW_HOSTS).map(async ([name, slow]) => {
      const clock = new VirtualClock()
      const limitMs = limits[slow.limit] * 1_000
      let failed = false
      const failing = failureOf(await fetcherOf(slow, clock)).finally(() => {
        failed = true
      })
      // The time for the body is a little longer, by its length.
      const due = () => clock.dueInMs.find((ms) => ms >= limitMs && ms < limitMs + 100)
      t.ok(await waitUntil(() => due() !== undefined), `${name}: its step is reached`)
      await clock.advance(due()! - 1)
      t.notOk(failed, `${name}: not before ${limitMs} ms`)
      // A drop that comes now has the rest of the time armed anew.
      for (let left = 100; left > 0 && !failed; left -= 1) await clock.advance(1)
      const { message } = await failing
      t.equal(message, `the host of audio.url ${slow.told}`, name)
    }),
  )
  t.equal(hosts.length, 4)
  for (const connections of hosts) t.ok(await waitUntil(() => connections.open === 0), 'no connection stays')
})

t.test('a longer body has more time', async (t) => {
  const clock = new VirtualClock()
  const timing = { bodyMs: 100, bodyBytesPerSecond: 1000 }
  const { fetchAudio } = await fetchFrom(
    t,
    (socket, head) => {
      socket.write(headOf(Number(/\d+/.exec(head)?.[0])))
      drip(socket, 'x', 20)
    },
    { timing, clock },
  )
  const ended: number[] = []
  const readSlowly = async (length: number) => {
    const { chunks } = await fetchAudio(`https://good.example/${length}`, fetchOptions())
    const ending = t
      .rejects(readAll(chunks), { message: 'the host of audio.url is too slow' })
      .then(() => ended.push(length))
    return { ending }
  }
  const [long, short] = await Promise.all([readSlowly(1000), readSlowly(100)])
  await clock.advance(199)
  t.same(ended, [])
  await clock.advance(1)
  await short.ending
  await clock.advance(899)
  t.same(ended, [100])
  await clock.advance(1)
  await long.ending
})

t.test("a reader's pause is not the host's", async (t) => {
  const clock = new VirtualClock()
  let written = 0
  const { fetchAudio } = await fetchFrom(
    t,
    async (socket) => {
      socket.write(headOf(25 * MIB))
      for (; written < 25 * MIB && !socket.destroyed; written += 64 * 1024)
        if (!socket.write(Buffer.alloc(64 * 1024)))
          await new Promise((resolve) => socket.once('drain', resolve))
    },
    { timing: { bodyMs: 5_000, bodyBytesPerSecond: 100 * MIB }, clock },
  )
  const { chunks } = await fetchAudio(URL_OF_AUDIO, fetchOptions())
  let bytes = 0
  let pausedAt = 0
  for await (const chunk of chunks) {
    if (bytes === 0) {
      // Longer than all of it may take.
      await clock.advance(6_500)
      pausedAt = await whenStill(() => written)
    }
    bytes += chunk.length
  }
  t.equal(bytes, 25 * MIB, 'all of it came')
  t.ok(pausedAt < 16 * MIB, `the pause held the host back: ${pausedAt} bytes were taken from it`)
})

t.test('25 MiB are never held at once', async (t) => {
  const piece = Buffer.alloc(64 * 1024, 'x')
  const { fetchAudio } = await fetchFrom(t, async (socket) => {
    socket.write(headOf(25 * MIB))
    for (let written = 0; written < 25 * MIB; written += piece.length)
      if (!socket.write(piece)) await new Promise((resolve) => socket.once('drain', resolve))
  })
  const heldBytes = () => {
    collectGarbage()
    return process.memoryUsage().arrayBuffers
  }
  const before = heldBytes()
  let bytes = 0
  let peakBytes = 0
  const { chunks } = await fetchAudio(URL_OF_AUDIO, fetchOptions())
  for await (const chunk of chunks) {
    const mebibytes = Math.floor(bytes / MIB)
    bytes += chunk.length
    if (Math.floor(bytes / MIB) === mebibytes) continue
    await sleep(5)
    peakBytes = Math.max(peakBytes, heldBytes() - before)
  }
  t.equal(bytes, 25 * MIB)
  t.ok(peakBytes < 3 * MIB, `${(peakBytes / MIB).toFixed(2)} MiB at most, those of the host included`)
})

/** Where a fetch stands when its caller leaves. */
const STAGES: Record<string, (t: Test) => Promise<FetchAudio>> = {
  'at the DNS': async () =>
    createAudioFetcher({
      resolve: (_, signal) =>
        new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('cancelled')))),
    }),
  'at TCP': async () => createAudioFetcher({ resolve: async () => ['8.8.8.8'], dial: () => new Socket() }),
  'at TLS': async (t) => (await fetchFromSilence(t)).fetchAudio,
  'before the head': async (t) => (await fetchFrom(t, () => {})).fetchAudio,
  'within the head': async (t) =>
    (await fetchFrom(t, (socket) => socket.write('HTTP/1.1 200 OK\r\n'))).fetchAudio,
  'after a redirect': async (t) => {
    const moved = 'HTTP/1.1 302 Found\r\nLocation: /b\r\n\r\n'
    return (await fetchFrom(t, (socket, head) => head.startsWith('GET /a.mp3') && socket.end(moved)))
      .fetchAudio
  },
  'within the body': async (t) =>
    (await fetchFrom(t, (socket) => socket.write(`${headOf(9)}some`))).fetchAudio,
}

/** Sockets, timers and queries of this process. */
const resources = () =>
  process.getActiveResourcesInfo().filter((name) => /TCPSocket|Timeout|TLS|QueryReq|GetAddrInfo/.test(name))
    .length

t.test('a caller who leaves', async (t) => {
  for (const [stage, make] of Object.entries(STAGES)) {
    const fetchAudio = await make(t)
    const before = resources()
    const reason = new Error('the caller left')
    const leaving = new AbortController()
    const fetching = fetchAudio(URL_OF_AUDIO, fetchOptions({ signal: leaving.signal })).then(({ chunks }) =>
      readAll(chunks),
    )
    fetching.catch(() => {})
    await sleep(100)
    const leftMs = performance.now()
    leaving.abort(reason)
    await t.rejects(fetching, reason, stage)
    t.ok(performance.now() - leftMs < 2_000, 'is not kept waiting')
    t.ok(await waitUntil(() => resources() <= before, 2_000), 'nothing is left')
  }
})

t.test('a caller who has left already', async (t) => {
  const { fetchAudio, dialled } = await fetchFrom(t, answerWith(`${headOf(5)}hello`))
  await t.rejects(fetchAudio(URL_OF_AUDIO, fetchOptions({ signal: AbortSignal.abort(new Error('gone')) })), {
    message: 'gone',
  })
  t.same(dialled, [])
})

t.test('a caller who leaves before the body is read', async (t) => {
  const { fetchAudio, host } = await fetchFrom(t, (socket) => socket.write(`${headOf(9)}some`))
  const leaving = new AbortController()
  const { chunks } = await fetchAudio(URL_OF_AUDIO, fetchOptions({ signal: leaving.signal }))
  t.equal(host.connections.open, 1)
  leaving.abort(new Error('the caller left'))
  t.ok(await waitUntil(() => host.connections.open === 0), 'the connection ends without the reader')
  await t.rejects(readAll(chunks), { message: 'the caller left' })
})

t.test('a caller who leaves once all is read', async (t) => {
  const { fetchAudio } = await fetchFrom(t, answerWith(`${headOf(5)}hello`))
  const leaving = new AbortController()
  const { chunks } = await fetchAudio(URL_OF_AUDIO, fetchOptions({ signal: leaving.signal }))
  t.equal((await readAll(chunks)).toString(), 'hello')
  leaving.abort()
  t.same(await readAll(chunks), Buffer.alloc(0))
})

t.test('a reader who leaves', async (t) => {
  const { fetchAudio, host } = await fetchFrom(t, (socket) => socket.write(`${headOf(9)}some`))
  const body = await fetchAudio(URL_OF_AUDIO, fetchOptions())
  for await (const chunk of body.chunks) {
    t.equal(chunk.length, 4)
    break
  }
  t.ok(await waitUntil(() => host.connections.open === 0), 'ends the connection')

  const unread = await fetchAudio(URL_OF_AUDIO, fetchOptions())
  t.equal(host.connections.open, 1)
  await unread.chunks[Symbol.asyncIterator]().return?.()
  t.ok(await waitUntil(() => host.connections.open === 0), 'also before the first chunk')
})

t.test('a host that fails once the body is there, before it is read', async (t) => {
  const { fetchAudio, host } = await fetchFrom(t, (socket) => {
    socket.write(`${headOf(9)}some`)
    setTimeout(() => host.connections.reset(), 50)
  })
  const { chunks } = await fetchAudio(URL_OF_AUDIO, fetchOptions())
  await sleep(200)
  await t.rejects(readAll(chunks), { code: 'AUDIO_URL_FETCH_FAILED' })
})

t.test('nothing is left of many fetches', async (t) => {
  const answers = [`${headOf(5)}hello`, `${headOf(9)}hello`, 'HTTP/1.1 404 No\r\n\r\n', 'no HTTP', '']
  const { fetchAudio, host } = await fetchFrom(t, (socket, _, index) => {
    socket.end(answers[index % answers.length]!)
  })
  const before = resources()
  // One for all: what listens to it has to be gone, too.
  const { signal } = new AbortController()
  for (let round = 0; round < 10; round++)
    await Promise.all(Array.from({ length: 20 }, () => fetched(fetchAudio, URL_OF_AUDIO, { signal })))
  t.equal(host.connections.made, 200)
  t.ok(
    await waitUntil(() => host.connections.open === 0 && resources() <= before, 2_000),
    'no socket and no timer',
  )
  t.equal(getEventListeners(signal, 'abort').length, 0)
})
