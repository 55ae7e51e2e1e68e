import { filledWav } from './wav.ts'

export const REJECTED = 'AUDIO_URL_REJECTED'
export const FAILED = 'AUDIO_URL_FETCH_FAILED'

/** A tenth of a second of audio, as text of latin1. */
export const BODY = filledWav(44 + 3_200, 1).toString('latin1')
export const TYPE = 'Content-Type: audio/mpeg'
export const LENGTH = `Content-Length: ${BODY.length}`
const HEX_LENGTH = BODY.length.toString(16)

/** A 200 with these header lines and the audio. */
export const good = (...lines: string[]) => ['HTTP/1.1 200 OK', ...lines, '', BODY].join('\r\n')
/** The answer that is as it should be. */
export const SOUND = good(TYPE, LENGTH)

/** Answers of a host that is asked for audio, and what comes of each: `heard`, or the error in a word. */
export const ANSWERS: Record<string, [answer: string, outcome: string]> = {
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
  '103 before 200': [`HTTP/1.1 103 Early\r\nLink: x\r\n\r\n${good(TYPE, LENGTH)}`, 'heard'],
  'status 999': [good(TYPE, LENGTH).replace('200', '999'), `${FAILED} 999`],

  // Lengths.
  'no length': [good(TYPE), `${REJECTED} no_content_length`],
  chunked: [
    good(TYPE, 'Transfer-Encoding: chunked').replace(BODY, () => `${HEX_LENGTH}\r\n${BODY}\r\n0\r\n\r\n`),
    `${REJECTED} no_content_length`,
  ],
  'a length and chunked': [good(TYPE, LENGTH, 'Transfer-Encoding: chunked'), `${REJECTED} no_content_length`],
  'chunked and a length': [good(TYPE, 'Transfer-Encoding: chunked', LENGTH), `${REJECTED} no_content_length`],
  'an unknown transfer encoding': [good(TYPE, 'Transfer-Encoding: gzip'), `${REJECTED} no_content_length`],
  'two lengths': [good(TYPE, LENGTH, 'Content-Length: 6'), `${REJECTED} no_content_length`],
  'two equal lengths': [good(TYPE, LENGTH, LENGTH), `${REJECTED} no_content_length`],
  'a list of lengths': [good(TYPE, `${LENGTH}, ${BODY.length}`), `${REJECTED} no_content_length`],
  'a negative length': [good(TYPE, `Content-Length: -${BODY.length}`), `${REJECTED} no_content_length`],
  'a length with a sign': [good(TYPE, `Content-Length: +${BODY.length}`), `${REJECTED} no_content_length`],
  'a hexadecimal length': [good(TYPE, `Content-Length: 0x${HEX_LENGTH}`), `${REJECTED} no_content_length`],
  'an empty length': [good(TYPE, 'Content-Length: '), `${REJECTED} no_content_length`],
  'a length beyond 64 bits': [
    good(TYPE, `Content-Length: ${'9'.repeat(30)}`),
    `${REJECTED} no_content_length`,
  ],
  'a length of 0': [good(TYPE, 'Content-Length: 0').slice(0, -BODY.length), FAILED],
  'a length that is one too much': [good(TYPE, `Content-Length: ${BODY.length + 1}`), FAILED],
  'a length that is one too little': [good(TYPE, `Content-Length: ${BODY.length - 1}`), FAILED],

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
  'audio/vnd.dlna.adts': [good('Content-Type: audio/vnd.dlna.adts', LENGTH), 'heard'],
  'video/mp4': [good('Content-Type: video/mp4', LENGTH), 'heard'],
  'video/webm': [good('Content-Type: video/webm;codecs="opus"', LENGTH), 'heard'],
  'video/mpeg': [good('Content-Type: VIDEO/mpeg ; x=y', LENGTH), 'heard'],
  'application/ogg': [good('Content-Type: application/ogg', LENGTH), 'heard'],

  // Encodings.
  gzip: [good(TYPE, LENGTH, 'Content-Encoding: gzip'), `${REJECTED} unsupported_content_type`],
  'identity and br': [
    good(TYPE, LENGTH, 'Content-Encoding: identity', 'Content-Encoding: br'),
    `${REJECTED} unsupported_content_type`,
  ],
  identity: [good(TYPE, LENGTH, 'Content-Encoding: Identity'), 'heard'],
  'gzip behind 3,000 headers': [
    good(...new Array(3_000).fill('a:'), 'Content-Encoding: gzip', TYPE, LENGTH),
    `${REJECTED} unsupported_content_type`,
  ],

  // Heads.
  'a head of 64 KB': [good(`X: ${'x'.repeat(65_536)}`, TYPE, LENGTH), FAILED],
  'a head of 15 KB': [good(`X: ${'x'.repeat(15_000)}`, TYPE, LENGTH), 'heard'],
  'a folded header': [good('Content-Type: audio/mpeg\r\n ;x', LENGTH), FAILED],
  'bare line feeds': [good(TYPE, LENGTH).replaceAll('\r', ''), FAILED],
  'HTTP/1.0': [good(TYPE, LENGTH).replace('1.1', '1.0'), 'heard'],
  'HTTP/2': ['\x00\x00\x12\x04\x00\x00\x00\x00\x00', FAILED],
  'no HTTP': ['220 mail.example ESMTP\r\n', FAILED],
  'no word': ['', FAILED],
}

export const redirect = (location: string, status = 302) =>
  `HTTP/1.1 ${status} Moved\r\nLocation: ${location}\r\nContent-Length: 0\r\n\r\n`

/** Where a host redirects to; whatever it is asked at `/there` it answers with audio. */
export const TARGETS: Record<string, [location: string, outcome: string]> = {
  'the same host, a path': ['/there', 'heard'],
  'the same host, relative': ['there', 'heard'],
  'another host that is listed': ['https://other.example/there', 'heard'],
  'without a scheme': ['//other.example/there', 'heard'],
  'the port of https': ['https://good.example:443/there', 'heard'],
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

/** What webhooks make of the answers that do not deliver them: of what a body is they take no notice. */
export const NOT_DELIVERED: Readonly<Record<string, string>> = {
  ...Object.fromEntries(
    ['304', '400', '401', '429', '500', '503'].map((status) => [status, `status ${status}`]),
  ),
  '404 with audio': 'status 404',
  '300 with a location': 'status 300',
  '302 without a location': 'status 302',
  '101': 'the connection broke',
  '101 without upgrade': 'status 101',
  'status 999': 'status 999',
  'no word': 'the connection broke (ECONNRESET)',
  ...Object.fromEntries(
    [
      ...['a length and chunked', 'chunked and a length', 'two lengths', 'two equal lengths'],
      ...['a list of lengths', 'a negative length', 'a length with a sign', 'a hexadecimal length'],
      ...['an empty length', 'a length beyond 64 bits', 'a head of 64 KB', 'a folded header'],
      ...['bare line feeds', 'HTTP/2', 'no HTTP'],
    ].map((name) => [name, 'the answer cannot be read']),
  ),
}
