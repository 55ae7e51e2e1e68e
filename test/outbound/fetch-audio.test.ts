import type { TLSSocket } from 'node:tls'
import t from 'tap'
import { createAudioFetcher } from '../../src/outbound/fetch-audio.ts'
import {
  answerWith,
  failureOf,
  fetched,
  fetchFrom,
  fetchOptions,
  headOf,
  readAll,
  URL_OF_AUDIO,
} from '../support/audio-fetch.ts'
import { waitUntil } from '../support/wait-until.ts'

t.setTimeout(60_000)

const REJECTED = 'AUDIO_URL_REJECTED'
const FAILED = 'AUDIO_URL_FETCH_FAILED'

/** A 200 with these header lines and five bytes. */
const good = (...lines: string[]) => ['HTTP/1.1 200 OK', ...lines, '', 'hello'].join('\r\n')
const TYPE = 'Content-Type: audio/mpeg'
const LENGTH = 'Content-Length: 5'

t.test('audio comes as the host sends it', async (t) => {
  const { fetchAudio, host, dialled } = await fetchFrom(
    t,
    answerWith(good('Content-Type: Audio/MPEG; charset=x', LENGTH)),
  )
  const { length, mediaType, chunks } = await fetchAudio(
    'https://good.example/a%20b.mp3?x=1&y#z',
    fetchOptions(),
  )
  t.same({ length, mediaType }, { length: 5, mediaType: 'audio/mpeg' })
  t.equal((await readAll(chunks)).toString(), 'hello')
  t.equal(
    host.requests.join(''),
    [
      'GET /a%20b.mp3?x=1&y HTTP/1.1',
      'host: good.example',
      'user-agent: Larkway',
      'accept: audio/*, video/mp4, video/webm, video/mpeg, application/ogg',
      'accept-encoding: identity',
      'connection: close',
      '',
      '',
    ].join('\r\n'),
  )
  t.same(await readAll(chunks), Buffer.alloc(0), 'the body is there once')
  t.equal(await fetched(fetchAudio), 'hello')
  t.same(dialled, ['8.8.8.8 443', '8.8.8.8 443'], 'no connection is used again')
  t.ok(await waitUntil(() => host.connections.open === 0), 'and none stays')
})

const ANSWERS: Record<string, [answer: string, outcome: string]> = {
  // Statuses.
  '400': ['HTTP/1.1 400 Bad\r\n\r\n', `${REJECTED} status 400`],
  '401': ['HTTP/1.1 401 No\r\nWWW-Authenticate: Basic\r\n\r\n', `${REJECTED} status 401`],
  '404 with audio': [good(TYPE, LENGTH).replace('200', '404'), `${REJECTED} status 404`],
  '429': ['HTTP/1.1 429 Slow\r\n\r\n', `${REJECTED} status 429`],
  '500': ['HTTP/1.1 500 Oh\r\n\r\n', `${FAILED} 500`],
  '503': ['HTTP/1.1 503 Oh\r\nRetry-After: 1\r\n\r\n', `${FAILED} 503`],
  '206': [good(TYPE, LENGTH).replace('200', '206'), `${FAILED} 206`],
  '204': ['HTTP/1.1 204 No\r\n\r\n', `${FAILED} 204`],
  '201': [good(TYPE, LENGTH).replace('200', '201'), `${FAILED} 201`],
  '304': ['HTTP/1.1 304 Same\r\n\r\n', `${FAILED} 304`],
  '300 with a location': ['HTTP/1.1 300 Many\r\nLocation: /b\r\n\r\n', `${FAILED} 300`],
  '302 without a location': ['HTTP/1.1 302 Found\r\n\r\n', `${FAILED} 302`],
  '101': ['HTTP/1.1 101 Go\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nhello', FAILED],
  '101 without upgrade': ['HTTP/1.1 101 Go\r\n\r\nhello', `${FAILED} 101`],
  '103 before 200': [`HTTP/1.1 103 Early\r\nLink: x\r\n\r\n${good(TYPE, LENGTH)}`, 'hello'],
  'status 999': [good(TYPE, LENGTH).replace('200', '999'), `${FAILED} 999`],

  // Lengths.
  'no length': [good(TYPE), `${REJECTED} no_content_length`],
  chunked: [
    `${good(TYPE, 'Transfer-Encoding: chunked').slice(0, -5)}5\r\nhello\r\n0\r\n\r\n`,
    `${REJECTED} no_content_length`,
  ],
  'a length and chunked': [good(TYPE, LENGTH, 'Transfer-Encoding: chunked'), `${REJECTED} no_content_length`],
  'chunked and a length': [good(TYPE, 'Transfer-Encoding: chunked', LENGTH), `${REJECTED} no_content_length`],
  'an unknown transfer encoding': [good(TYPE, 'Transfer-Encoding: gzip'), `${REJECTED} no_content_length`],
  'two lengths': [good(TYPE, LENGTH, 'Content-Length: 6'), `${REJECTED} no_content_length`],
  'two equal lengths': [good(TYPE, LENGTH, LENGTH), `${REJECTED} no_content_length`],
  'a list of lengths': [good(TYPE, `${LENGTH}, 5`), `${REJECTED} no_content_length`],
  'a negative length': [good(TYPE, 'Content-Length: -5'), `${REJECTED} no_content_length`],
  'a length with a sign': [good(TYPE, 'Content-Length: +5'), `${REJECTED} no_content_length`],
  'a hexadecimal length': [good(TYPE, 'Content-Length: 0x5'), `${REJECTED} no_content_length`],
  'an empty length': [good(TYPE, 'Content-Length: '), `${REJECTED} no_content_length`],
  'a length beyond 64 bits': [
    good(TYPE, `Content-Length: ${'9'.repeat(30)}`),
    `${REJECTED} no_content_length`,
  ],
  'a length of 0': [good(TYPE, 'Content-Length: 0').slice(0, -5), FAILED],
  'a length that is one too much': [good(TYPE, 'Content-Length: 6'), FAILED],
  'a length that is one too little': [good(TYPE, 'Content-Length: 4'), FAILED],

  // Types.
  'no type': [good(LENGTH), `${REJECTED} unsupported_content_type`],
  'text/html': [good('Content-Type: text/html', LENGTH), `${REJECTED} unsupported_content_type`],
  'video/quicktime': [good('Content-Type: video/quicktime', LENGTH), `${REJECTED} unsupported_content_type`],
  'a type that only contains audio': [
    good('Content-Type: x/audio/mpeg', LENGTH),
    `${REJECTED} unsupported_content_type`,
  ],
  'no subtype': [good('Content-Type: audio/', LENGTH), `${REJECTED} unsupported_content_type`],
  'any audio': [good('Content-Type: audio/*', LENGTH), `${REJECTED} unsupported_content_type`],
  'two types, in one line': [
    good('Content-Type: text/html, audio/mpeg', LENGTH),
    `${REJECTED} unsupported_content_type`,
  ],
  'audio/vnd.dlna.adts': [good('Content-Type: audio/vnd.dlna.adts', LENGTH), 'hello'],
  'video/mp4': [good('Content-Type: video/mp4', LENGTH), 'hello'],
  'video/webm': [good('Content-Type: video/webm;codecs="opus"', LENGTH), 'hello'],
  'video/mpeg': [good('Content-Type: VIDEO/mpeg ; x=y', LENGTH), 'hello'],
  'application/ogg': [good('Content-Type: application/ogg', LENGTH), 'hello'],

  // Encodings.
  gzip: [good(TYPE, LENGTH, 'Content-Encoding: gzip'), `${REJECTED} unsupported_content_type`],
  'identity and br': [
    good(TYPE, LENGTH, 'Content-Encoding: identity', 'Content-Encoding: br'),
    `${REJECTED} unsupported_content_type`,
  ],
  identity: [good(TYPE, LENGTH, 'Content-Encoding: Identity'), 'hello'],
  'gzip behind 3,000 headers': [
    good(...new Array(3_000).fill('a:'), 'Content-Encoding: gzip', TYPE, LENGTH),
    `${REJECTED} unsupported_content_type`,
  ],

  // Heads.
  'a head of 64 KB': [good(`X: ${'x'.repeat(65_536)}`, TYPE, LENGTH), FAILED],
  'a head of 15 KB': [good(`X: ${'x'.repeat(15_000)}`, TYPE, LENGTH), 'hello'],
  'a folded header': [good('Content-Type: audio/mpeg\r\n ;x', LENGTH), FAILED],
  'bare line feeds': [good(TYPE, LENGTH).replaceAll('\r', ''), FAILED],
  'HTTP/1.0': [good(TYPE, LENGTH).replace('1.1', '1.0'), 'hello'],
  'HTTP/2': ['\x00\x00\x12\x04\x00\x00\x00\x00\x00', FAILED],
  'no HTTP': ['220 mail.example ESMTP\r\n', FAILED],
  'no word': ['', FAILED],
}

t.test('answers', async (t) => {
  let answer = ''
  const { fetchAudio, host } = await fetchFrom(t, (socket) => socket.end(answer, 'latin1'))
  for (const [name, [text, outcome]] of Object.entries(ANSWERS)) {
    answer = text
    t.equal(await fetched(fetchAudio), outcome, name)
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

const redirect = (location: string, status = 302) =>
  `HTTP/1.1 ${status} Moved\r\nLocation: ${location}\r\nContent-Length: 0\r\n\r\n`

const TARGETS: Record<string, [location: string, outcome: string]> = {
  'the same host, a path': ['/there', 'there'],
  'the same host, relative': ['there', 'there'],
  'another host that is listed': ['https://other.example/there', 'there'],
  'without a scheme': ['//other.example/there', 'there'],
  'the port of https': ['https://good.example:443/there', 'there'],
  'cloud metadata': ['https://169.254.169.254/', `${REJECTED} redirect_rejected`],
  'a downgrade': ['http://good.example/there', `${REJECTED} redirect_rejected`],
  'a host that is not listed': ['https://evil.example/there', `${REJECTED} redirect_rejected`],
  'a listed host with a user': ['https://me@good.example/there', `${REJECTED} redirect_rejected`],
  'another port': ['https://good.example:22/there', `${REJECTED} redirect_rejected`],
  loopback: ['//[::1]/x', `${REJECTED} redirect_rejected`],
  'a file': ['file:///etc/passwd', `${REJECTED} redirect_rejected`],
  'a host that is not public': ['https://inner.example/there', `${REJECTED} redirect_rejected`],
  'a host without addresses': ['https://gone.example/there', `${REJECTED} redirect_rejected`],
  nothing: ['', `${REJECTED} redirect_rejected`],
  itself: ['/a.mp3', `${REJECTED} too_many_redirects`],
}

t.test('targets of redirects', async (t) => {
  let location = ''
  const there = `${headOf(5)}there`
  const { fetchAudio, host, dialled } = await fetchFrom(
    t,
    (socket, head) => socket.end(head.startsWith('GET /there ') ? there : redirect(location)),
    { resolve: async (name) => ({ 'inner.example': ['10.0.0.1'], 'gone.example': [] })[name] ?? ['8.8.8.8'] },
  )
  const domains = ['good.example', 'other.example', 'inner.example', 'gone.example']
  for (const [name, [target, outcome]] of Object.entries(TARGETS)) {
    location = target
    t.equal(await fetched(fetchAudio, URL_OF_AUDIO, { domains }), outcome, name)
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
