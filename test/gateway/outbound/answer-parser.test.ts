import t from 'tap'
import { MalformedAnswer, readHeaders } from '../../../src/gateway/outbound/answer-head.ts'
import { AnswerParser } from '../../../src/gateway/outbound/answer-parser.ts'

/** An answer as it was read: as soon as it was whole, or when its bytes and then the connection ended. */
interface Read {
  readonly status: number
  readonly body: string
  readonly headers: Readonly<Record<string, string>>
  /** Whole, broken off, or malformed. */
  readonly end: string
  /** Bytes after the answer. */
  readonly behind: number
  readonly keepsAlive: boolean
}

/** Reads an answer that comes in these parts. */
function readParts(parts: readonly string[]): Read {
  let status = 0
  let fields = ''
  let body = ''
  const parser = new AnswerParser({
    onHead(given, lines) {
      status = given
      fields = lines
    },
    onBody: (bytes, start, end) => (body += bytes.toString('latin1', start, end)),
  })
  parser.begin()
  let end = ''
  let behind = 0
  try {
    for (const part of parts) {
      // The socket's buffer is larger than what was read, and full of what was read before.
      const bytes = Buffer.from(`${part}\r\n\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n`, 'latin1')
      const read = parser.read(bytes, part.length)
      bytes.fill('!')
      behind += part.length - read
    }
    end = parser.done ? 'whole' : parser.finish(false) ? 'whole' : 'broken off'
  } catch (error) {
    if (!(error instanceof MalformedAnswer)) throw error
    end = error.message
  }
  return { status, body, headers: readHeaders(fields), end, behind, keepsAlive: parser.head.keepsAlive }
}

function splits(text: string): string[][] {
  const inTwo = Array.from({ length: text.length - 1 }, (_, at) => [
    text.slice(0, at + 1),
    text.slice(at + 1),
  ])
  return [[text], [...text], ...inTwo]
}

const OK = 'HTTP/1.1 200 OK\r\n'
const CHUNKED = `${OK}Transfer-Encoding: chunked\r\n\r\n`

const GOOD: Record<string, { text: string; body: string; status?: number; keepsAlive?: boolean }> = {
  'with a length': { text: `${OK}Content-Length: 5\r\n\r\nhello`, body: 'hello' },
  'of nothing': { text: `${OK}Content-Length: 0\r\n\r\n`, body: '' },
  'in chunks': { text: `${CHUNKED}5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n`, body: 'hello world' },
  'in chunks, with capitals': { text: `${CHUNKED}A\r\n0123456789\r\n0\r\n\r\n`, body: '0123456789' },
  'with extensions of chunks': { text: `${CHUNKED}5;a=b;c="d e"\r\nhello\r\n0;x\r\n\r\n`, body: 'hello' },
  'with a trailer': { text: `${CHUNKED}5\r\nhello\r\n0\r\nX-Sum: 1\r\nX-Other: \r\n\r\n`, body: 'hello' },
  'with bytes that look like its end': {
    text: `${CHUNKED}b\r\n\r\n0\r\n\r\nHTTP\r\n0\r\n\r\n`,
    body: '\r\n0\r\n\r\nHTTP',
  },
  'until the end': { text: `${OK}A: b\r\n\r\nhello`, body: 'hello', keepsAlive: false },
  'without content': { text: 'HTTP/1.1 204 No Content\r\n\r\n', body: '', status: 204 },
  'not modified, with a length': {
    text: 'HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n',
    body: '',
    status: 304,
    keepsAlive: false,
  },
  'without a reason': { text: 'HTTP/1.1 429\r\nContent-Length: 2\r\n\r\nno', body: 'no', status: 429 },
  'of an older version': {
    text: 'HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok',
    body: 'ok',
    keepsAlive: false,
  },
  'of an older version that stays': {
    text: 'HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 2\r\n\r\nok',
    body: 'ok',
  },
  'that ends the connection': {
    text: `${OK}Connection: x, Close\r\nContent-Length: 2\r\n\r\nok`,
    body: 'ok',
    keepsAlive: false,
  },
  'behind informational ones': {
    text: `HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n${OK}Content-Length: 2\r\n\r\nok`,
    body: 'ok',
  },
}
t.test('good answers, wherever they are split', async (t) => {
  for (const [name, { text, body, status = 200, keepsAlive = true }] of Object.entries(GOOD)) {
    for (const parts of splits(text)) {
      const read = readParts(parts)
      const expected = { status, body, end: 'whole', behind: 0, keepsAlive }
      if (parts.length === 1) t.match(read, expected, name)
      else t.match(read, expected, `${name}: ${parts.length} parts, the first of ${parts[0]?.length}`)
    }
  }
})

const HOSTILE: Record<string, string> = {
  'no HTTP': 'SSH-2.0-OpenSSH_9.2\r\n\r\n',
  'another version': 'HTTP/2.0 200 OK\r\n\r\n',
  'an older protocol': 'HTTP/0.9 200 OK\r\n\r\n',
  'no status': 'HTTP/1.1 OK\r\n\r\n',
  'a status below 100': 'HTTP/1.1 099 OK\r\n\r\n',
  'a status of four digits': 'HTTP/1.1 2000 OK\r\n\r\n',
  'an upgrade': 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n',
  'an empty line first': `\r\n${OK}Content-Length: 0\r\n\r\n`,
  'a bare LF after the status': 'HTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n',
  'a bare LF behind a header': `${OK}Content-Length: 0\nA: b\r\n\r\n`,
  'a bare LF for the empty line': `${OK}Content-Length: 0\r\n\n`,
  'a bare CR in a header': `${OK}A: b\rContent-Length: 5\r\nContent-Length: 0\r\n\r\n`,
  'a NUL in a header': `${OK}A: \0\r\nContent-Length: 0\r\n\r\n`,
  'a folded header': `${OK}A: b\r\n c\r\nContent-Length: 0\r\n\r\n`,
  'a space before the colon': `${OK}Content-Length : 0\r\n\r\n`,
  'a header without a colon': `${OK}broken\r\n\r\n`,
  'a header without a name': `${OK}: b\r\nContent-Length: 0\r\n\r\n`,
  'a length beside a coding': `${OK}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
  'a coding beside a length': `${OK}Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n`,
  'two lengths': `${OK}Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!`,
  'the same length twice': `${OK}Content-Length: 5\r\ncontent-length: 5\r\n\r\nhello`,
  'a list of lengths': `${OK}Content-Length: 5, 5\r\n\r\nhello`,
  'a length with a sign': `${OK}Content-Length: +5\r\n\r\nhello`,
  'a length in hexadecimal': `${OK}Content-Length: 0x5\r\n\r\nhello`,
  'no length where one belongs': `${OK}Content-Length:\r\n\r\nhello`,
  'a length beyond all numbers': `${OK}Content-Length: 99999999999999999999\r\n\r\n`,
  'an unknown coding': `${OK}Transfer-Encoding: gzip\r\n\r\n`,
  'a coding within another': `${OK}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`,
  'the coding twice': `${OK}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
  'a coding that is not quite chunked': `${OK}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n`,
  'a chunk without a size': `${CHUNKED}\r\nhello`,
  'a chunk with a sign': `${CHUNKED}-5\r\nhello`,
  'a chunk in 0x': `${CHUNKED}0x5\r\nhello\r\n0\r\n\r\n`,
  'a space behind a size': `${CHUNKED}5 \r\nhello\r\n0\r\n\r\n`,
  'a chunk beyond all numbers': `${CHUNKED}${'f'.repeat(20)}\r\n`,
  'a chunk longer than its size': `${CHUNKED}5\r\nhello!\r\n0\r\n\r\n`,
  'a chunk that ends with a bare LF': `${CHUNKED}5\r\nhello\n0\r\n\r\n`,
  'a size that ends with a bare LF': `${CHUNKED}5\nhello\r\n0\r\n\r\n`,
  'a size that ends with a bare CR': `${CHUNKED}5\rhello\r\n0\r\n\r\n`,
  'a control character in an extension': `${CHUNKED}5;a=\x01\r\nhello\r\n0\r\n\r\n`,
  'an endless extension': `${CHUNKED}5;${'a'.repeat(5_000)}`,
  'a trailer that is none': `${CHUNKED}0\r\nbroken\r\n\r\n`,
  'a trailer with a bare LF': `${CHUNKED}0\r\nA: b\n\r\n`,
  'too long a trailer': `${CHUNKED}0\r\nA: ${'b'.repeat(40_000)}`,
  'too long a head': `${OK}A: ${'b'.repeat(40_000)}`,
  'too long a head that ends': `${OK}A: ${'b'.repeat(40_000)}\r\nContent-Length: 0\r\n\r\n`,
  'too many headers': `${OK}${'A: b\r\n'.repeat(300)}Content-Length: 0\r\n\r\n`,
}

t.test('hostile answers, wherever they are split', async (t) => {
  for (const [name, text] of Object.entries(HOSTILE)) {
    // Every byte of a long one would be looked at a million times.
    const ways = text.length < 500 ? splits(text) : [[text], [text.slice(0, 20_000), text.slice(20_000)]]
    const ends = new Set(ways.map((parts) => readParts(parts).end))
    t.notOk(ends.has('whole') || ends.has('broken off'), `${name}: ${[...ends].join(', ')}`)
  }
})

t.test('answers that end too early', async (t) => {
  for (const [name, { text, body }] of Object.entries(GOOD)) {
    for (let length = 0; length < text.length; length += 1) {
      const read = readParts([text.slice(0, length)])
      // Without a length, the end of the connection is the end of the answer.
      if (name === 'until the end' && read.status === 200) continue
      t.equal(read.end, 'broken off', `${name}, ${length} of ${text.length}`)
      t.ok(body.startsWith(read.body))
    }
  }
})

t.test('what lies behind an answer is not read', async (t) => {
  const next = `${OK}Content-Length: 5\r\n\r\nother`
  for (const [name, { text, body }] of Object.entries(GOOD)) {
    if (name === 'until the end') continue
    const read = readParts([text + next])
    t.match(read, { body, end: 'whole', behind: next.length }, name)
  }
})

t.test('headers by name', async (t) => {
  const { headers } = readParts([
    `${OK}X-Two: a\r\nx-two:b\t\r\nEmpty:\r\n__proto__: c\r\nconstructor: d\r\nLatin: \xe4\r\n` +
      'Content-Length: 0\r\n\r\n',
  ])
  t.equal(headers['x-two'], 'a, b')
  t.equal(headers.empty, '')
  t.equal(headers.constructor, 'd')
  t.equal(headers.latin, 'ä')
  t.same(Object.keys(headers), ['x-two', 'empty', '__proto__', 'constructor', 'latin', 'content-length'])
})
