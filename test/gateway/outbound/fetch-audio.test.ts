import type { TLSSocket } from 'node:tls'
import t from 'tap'
import { createAudioFetcher } from '../../../src/gateway/outbound/fetch-audio.ts'
import {
  answerWith,
  failureOf,
  fetched,
  fetchFrom,
  fetchOptions,
  headOf,
  readAll,
  URL_OF_AUDIO,
} from '../../support/audio-fetch.ts'
import {
  ANSWERS,
  BODY,
  FAILED,
  good,
  LENGTH,
  REJECTED,
  redirect,
  SOUND,
  TARGETS,
} from '../../support/guard-answers.ts'
import { waitUntil } from '../../support/wait-until.ts'

t.setTimeout(60_000)

/** A fetch in a word. */
const told = (outcome: string) => (outcome === BODY ? 'heard' : outcome)

t.test('audio comes as the host sends it', async (t) => {
  const { fetchAudio, host, dialled } = await fetchFrom(
    t,
    answerWith(good('Content-Type: Audio/MPEG; charset=x', LENGTH)),
  )
  const { length, mediaType, chunks } = await fetchAudio(
    'https://good.example/a%20b.mp3?x=1&y#z',
    fetchOptions(),
  )
  t.same({ length, mediaType }, { length: BODY.length, mediaType: 'audio/mpeg' })
  t.equal((await readAll(chunks)).toString('latin1'), BODY)
  t.equal(
    host.requests.join(''),
    [
      ...['GET /a%20b.mp3?x=1&y HTTP/1.1', 'host: good.example', 'user-agent: Larkway'],
      ...['accept: audio/*, video/mp4, video/webm, video/mpeg, application/ogg', 'accept-encoding: identity'],
      ...['connection: close', '', ''],
    ].join('\r\n'),
  )
  t.same(await readAll(chunks), Buffer.alloc(0), 'the body is there once')
  t.equal(await fetched(fetchAudio), BODY)
  t.same(dialled, ['8.8.8.8 443', '8.8.8.8 443'], 'no connection is used again')
  t.ok(await waitUntil(() => host.connections.open === 0), 'and none stays')
})

t.test('answers', async (t) => {
  let answer = ''
  const { fetchAudio, host } = await fetchFrom(t, (socket) => socket.end(answer, 'latin1'))
  for (const [name, [text, outcome]] of Object.entries(ANSWERS)) {
    answer = text
    t.equal(told(await fetched(fetchAudio)), outcome, name)
  }
  t.ok(await waitUntil(() => host.connections.open === 0), 'no connection stays')
})

t.test('the largest audio, and one byte more', async (t) => {
  const { fetchAudio } = await fetchFrom(t, (socket, head) =>
    socket.write(headOf(Number(/\d+/.exec(head)?.[0]))),
  )
  const { length, chunks } = await fetchAudio('https://good.example/26214400', fetchOptions())
  t.equal(length, 26_214_400)
  await chunks[Symbol.asyncIterator]().return?.()

  const tooLarge = fetchAudio('https://good.example/26214401', fetchOptions())
  await t.rejects(tooLarge, {
    code: 'AUDIO_TOO_LARGE',
    message: 'audio is over max_audio_url_bytes (26214400 bytes)',
    extra: {
      param: 'audio.url',
      details: { limit: 'max_audio_url_bytes', limit_bytes: 26_214_400, received_bytes: 26_214_401 },
    },
  })
})

t.test('no more is kept than was declared', async (t) => {
  const { fetchAudio } = await fetchFrom(t, (socket) => {
    socket.write(headOf(10))
    for (let megabytes = 0; megabytes < 30; megabytes++) socket.write(Buffer.alloc(1024 * 1024))
  })
  const { chunks } = await fetchAudio(URL_OF_AUDIO, fetchOptions())
  let bytes = 0
  await t.rejects(
    async () => {
      for await (const chunk of chunks) bytes += chunk.length
    },
    { code: FAILED, message: 'the host of audio.url sent more than it declared' },
  )
  t.ok(bytes <= 10)
})

t.test('a body that breaks off', async (t) => {
  const ends = {
    'in order': (socket: TLSSocket) => socket.end(),
    'without a word of TLS': (socket: TLSSocket) => socket.destroy(),
    'by a reset': () => host.connections.reset(),
  }
  let end: (socket: TLSSocket) => void
  const { fetchAudio, host } = await fetchFrom(t, (socket) => {
    socket.write(headOf(1000) + 'x'.repeat(500), () => end(socket))
  })
  for (const [name, breakOff] of Object.entries(ends)) {
    end = breakOff
    const chunks = fetchAudio(URL_OF_AUDIO, fetchOptions()).then((body) => body.chunks)
    await t.rejects(chunks.then(readAll), { code: FAILED, message: 'the host of audio.url broke off' }, name)
    // A reset may overtake the head.
    const again = await chunks.catch(() => null)
    if (again !== null) t.same(await readAll(again), Buffer.alloc(0), 'that is told once')
  }
})

t.test('targets of redirects', async (t) => {
  let location = ''
  const { fetchAudio, host, dialled } = await fetchFrom(
    t,
    (socket, head) => socket.end(head.startsWith('GET /there ') ? SOUND : redirect(location), 'latin1'),
    { resolve: async (name) => ({ 'inner.example': ['10.0.0.1'], 'gone.example': [] })[name] ?? ['8.8.8.8'] },
  )
  const domains = ['good.example', 'other.example', 'inner.example', 'gone.example']
  for (const [name, [target, outcome]] of Object.entries(TARGETS)) {
    location = target
    t.equal(told(await fetched(fetchAudio, URL_OF_AUDIO, { domains })), outcome, name)
  }
  t.same([...new Set(dialled)], ['8.8.8.8 443'])
  t.equal(host.requests.filter((head) => head.includes('\r\nhost: other.example\r\n')).length, 2)
  t.ok(await waitUntil(() => host.connections.open === 0), 'no connection stays')
})

t.test('statuses of redirects, and how many there may be', async (t) => {
  const step = /^GET \/(\d) /
  let status = 302
  const { fetchAudio, host } = await fetchFrom(t, (socket, head) => {
    const left = Number(step.exec(head)?.[1])
    socket.end(left === 0 ? `${headOf(5)}there` : redirect(`/${left - 1}`, status))
  })
  for (status of [301, 302, 303, 307, 308])
    t.equal(await fetched(fetchAudio, 'https://good.example/3'), 'there')
  const before = host.requests.length
  t.equal(await fetched(fetchAudio, 'https://good.example/4'), `${REJECTED} too_many_redirects`)
  t.equal(host.requests.length - before, 4, 'the fifth host is not asked')
})

t.test('what is of no use is not waited for', async (t) => {
  const { fetchAudio, host } = await fetchFrom(t, (socket, head) => {
    const [, name = ''] = /^GET \/(\w+)/.exec(head) ?? []
    const answers: Record<string, string> = {
      there: `${headOf(5)}there`,
      moved: redirect('/there').replace(': 0', ': 9'),
      gone: 'HTTP/1.1 404 No\r\nContent-Length: 9\r\n\r\n',
      unknown: 'HTTP/1.1 200 OK\r\nContent-Type: audio/mpeg\r\n\r\n',
    }
    // Left open: the host waits for more requests.
    socket.write(answers[name]!)
  })
  for (const name of ['there', 'moved', 'gone', 'unknown']) {
    const outcome = await fetched(fetchAudio, `https://good.example/${name}`)
    t.match(outcome, /^there$|REJECTED/, name)
    t.ok(await waitUntil(() => host.connections.open === 0, 2_000), 'the connection ends')
  }
})

t.test('a URL that is refused is not followed', async (t) => {
  let resolved = 0
  const { fetchAudio, dialled } = await fetchFrom(t, answerWith(''), {
    resolve: async () => {
      resolved++
      return ['8.8.8.8']
    },
  })
  const urls = {
    'http://good.example/': 'scheme',
    'https://evil.example/': 'host_not_allowed',
    'https://8.8.8.8/': 'host_not_allowed',
    'https://a:b@good.example/': 'credentials_in_url',
    'https://good.example:8443/': 'port_not_allowed',
  }
  for (const [url, reason] of Object.entries(urls))
    t.equal(await fetched(fetchAudio, url), `${REJECTED} ${reason}`)
  t.equal(await fetched(fetchAudio, URL_OF_AUDIO, { domains: [] }), `${REJECTED} host_not_allowed`)
  t.equal(resolved, 0)
  t.same(dialled, [])
})

t.test('errors tell the caller what to do, and nothing of the network', async (t) => {
  const { fetchAudio } = await fetchFrom(t, answerWith('HTTP/1.1 403 keep out of 10.0.0.1\r\n\r\n'))
  const refused = await failureOf(fetchAudio)
  t.equal(refused.message, 'the host of audio.url refuses (status 403)')
  t.same(refused.extra.details, { reason: 'status', status: 403 })
  t.equal(refused.extra.param, 'audio.url')

  const inner = createAudioFetcher({ resolve: async () => ['8.8.8.8', '10.1.2.3'] })
  const notPublic = await failureOf(inner)
  t.equal(notPublic.message, 'the host of audio.url has an address that is not public')
  t.match(notPublic.extra.cause, { message: 'good.example has the address 10.1.2.3' }, 'the log knows')
})
