import { Dice } from '../support/dice.ts'
import { type EdgeRequest, textOf } from './edge-requests.ts'

/** What one client does: it sends pieces, each in a segment of its own, then waits or leaves. */
export interface Mutant {
  /** Text of latin1, each character a byte. */
  readonly pieces: readonly string[]
  /** `half` closes its sending side behind the last byte, `leaves` goes at once. */
  readonly manner: 'stays' | 'half' | 'leaves'
  /** How long it waits for an answer: much of what is sent here is never whole. */
  readonly patienceMs: number
}

/** Stands in hostile tokens. As the name of a header of an answer it says that the answer was split. */
export const PLANTED_HEADER = 'x-planted'
const PLANT = `\r\n${PLANTED_HEADER}: 1`

/** What HTTP, forms and JSON are made of, and what is hard to read in them. */
const TOKENS: readonly string[] = [
  ...[
    ...['\r\n', '\n', '\r', '\0', '\t', ' ', ':', ';', ',', '=', '"', '\\', '\x7f', '\xff\xfe', '\xc3\x28'],
    '\xed\xa0\x80',
  ],
  ...[
    ...['\r\n\r\n', '\r\n ', 'HTTP/1.1', 'HTTP/1.0', ' HTTP/2.0', '%', '%00', '%ff', '..', '//', '/../', '?'],
    ...['#', '*'],
  ],
  ...[
    'Transfer-Encoding: chunked\r\n',
    'Transfer-Encoding: gzip\r\n',
    'Content-Length: 0\r\n',
    'Content-Length: 7\r\n',
  ],
  ...[
    'Connection: close\r\n',
    'Connection: keep-alive\r\n',
    'Connection: Upgrade\r\n',
    'Upgrade: websocket\r\n',
  ],
  ...[
    'Expect: 100-continue\r\n',
    'Host: b\r\n',
    'Content-Encoding: gzip\r\n',
    'Accept: audio/*\r\n',
    'Range: bytes=0-\r\n',
  ],
  ...[
    'X-LK-Purpose: \r\n',
    'Idempotency-Key: k\r\n',
    'X-LK-Request-ID: ',
    `traceparent: 00-${'0'.repeat(32)}-${'1'.repeat(16)}-01\r\n`,
  ],
  ...[
    PLANT,
    `%0d%0a${PLANTED_HEADER}:1`,
    `\\r\\n${PLANTED_HEADER}: 1`,
    `\x0d\x0a\x0d\x0aHTTP/1.1 200 OK${PLANT}\r\n\r\n`,
  ],
  ...[
    ...['GET /smug HTTP/1.1\r\nHost: a\r\n\r\n', '0\r\n\r\n', '5\r\nhello\r\n', '5;a=b\r\nhello\r\n'],
    ...['ffffffff\r\n', '-1\r\n'],
  ],
  ...[
    '--lark',
    '\r\n--lark\r\n',
    '\r\n--lark--\r\n',
    '--',
    'Content-Disposition: form-data; name="file"\r\n\r\n',
  ],
  ...[
    '; filename="',
    "; filename*=utf-8''%0d%0a%00",
    '; name="audio"',
    '; boundary=',
    '; charset=utf-16',
    '; charset=x',
  ],
  ...[
    ...['{', '}', '[', ']', 'null', 'true', '1e999', '-0', '"\\ud800"', '"\\u0000"', '"__proto__":{'],
    ...['"a":1,"a":2,', '{"":'],
  ],
  ...[
    '"audio":{"base64":"',
    '"audio":{"url":"https://127.0.0.1/',
    '"data:audio/wav;base64,',
    '"stream":true,',
    '"payload":',
  ],
  ...['RIFF', 'ID3', 'fLaC', 'OggS', '\x1aE\xdf\xa3', 'ftypM4A ', '\xff\xfb\x90d'],
  ...['['.repeat(600), '{"a":'.repeat(400), 'a'.repeat(300), 'a'.repeat(20_000), '\u00e9'.repeat(100)],
]

const NUMBERS: readonly string[] = [
  ...[
    ...['0', '1', '-1', '00', '5', '16', '255', '65536', '2147483648', '4294967296', '9007199254740993'],
    '99999999999999',
  ],
  ...[
    '999999999999999',
    '1000000000000000',
    '18446744073709551616',
    '9'.repeat(400),
    ...['1e3', '1e999', '0x10', '1.5', '', 'NaN', '+1'],
  ],
]

const VALUES: readonly string[] = [
  ...[
    ...['null', 'true', '0', '-1', '1e999', '""', '"a"', '"\\ud800"', '"\\u0000\\r\\n"', '[]', '{}', '[[]]'],
    ...['[null]', '{"":{}}'],
  ],
  ...[
    '"data:,"',
    '"data:audio/wav;base64,AAAA"',
    '"https://[::1]/"',
    '"/"',
    `"${'x'.repeat(2_000)}"`,
    '"\xff"',
    '"tool"',
  ],
  ...[
    ...['"transcription"', '"speech"', '"embed"', '"async"', '"realtime"', '"json"', '"pcm_16000"'],
    ...['"x\\r\\ny"', '["a","b"]'],
  ],
]

/** One change to a request whose parts are still known. */
type Change = (lines: string[], body: string, dice: Dice, corpus: readonly EdgeRequest[]) => string

/** Changes of the head, which leave the body alone. */
const HEAD_CHANGES: readonly Change[] = [
  (lines, body, dice) => {
    lines.splice(dice.below(lines.length), 1)
    return body
  },
  (lines, body, dice, corpus) => {
    lines.push(dice.chance(0.5) ? dice.one(lines) : dice.one(dice.one(corpus).lines))
    return body
  },
  (lines, body, dice) => {
    lines.splice(dice.below(lines.length), 0, dice.one(TOKENS))
    return body
  },
  (lines, body, dice) => {
    const [from, to] = [dice.below(lines.length), dice.below(lines.length)]
    const kept = lines[from] ?? ''
    lines[from] = lines[to] ?? ''
    lines[to] = kept
    return body
  },
  (lines, body, dice, corpus) => {
    lines[0] = dice.one(corpus).lines[0] ?? ''
    return body
  },
  (lines, body, dice) => {
    const at = dice.below(lines.length)
    const line = lines[at] ?? ''
    const place = dice.below(line.length + 1)
    lines[at] = line.slice(0, place) + dice.one(TOKENS) + line.slice(place + dice.below(4))
    return body
  },
  (lines, body, dice) => {
    const at = dice.below(lines.length)
    lines[at] = (lines[at] ?? '').replace(/\d+/, () => dice.one(NUMBERS))
    return body
  },
]

const BODY_CHANGES: readonly Change[] = [
  (_, body, dice) => inserted(body, dice.one(TOKENS), dice),
  (_, body, dice) => body.slice(0, dice.below(body.length + 1)),
  (_, body, dice, corpus) => {
    const other = dice.one(corpus).body
    return body.slice(0, dice.below(body.length + 1)) + other.slice(dice.below(other.length + 1))
  },
  (_, body, dice) => {
    const from = dice.below(body.length + 1)
    return body.slice(0, from) + body.slice(dice.below(body.length + 1 - from))
  },
  (_, body, dice) =>
    replacedOne(body, /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?|true|false|null|[[\]{}:,]/g, VALUES, dice),
  (_, body, dice) => replacedOne(body, /^[0-9a-f]+(?=[;\r ])|\d+/gm, NUMBERS, dice),
  (_, body, dice) => replacedOne(body, /\r\n|--lark|form-data|name=|[;:"]/g, TOKENS, dice),
  (_, body, dice) => flipped(body, dice),
]

/**
 * A mutated request, well-defined by the two numbers.
 *
 * @param index of the mutant in a run
 */
export function mutantOf(seed: number, index: number, corpus: readonly EdgeRequest[]): Mutant {
  const dice = new Dice(seed + Math.imul(index, 0x9e3779b9))
  let text = mutated(dice, corpus)
  // Pipelining.
  while (dice.chance(0.06)) text += dice.chance(0.5) ? textOf(dice.one(corpus)) : mutated(dice, corpus)
  if (dice.chance(0.2)) text = flipped(text, dice)
  if (dice.chance(0.05)) text = inserted(text, dice.one(TOKENS), dice)
  if (dice.chance(0.05)) text = text.slice(0, dice.below(text.length + 1))
  const roll = dice.roll()
  return {
    pieces: dice.chance(0.3) ? pieces(text, dice) : [text],
    manner: roll < 0.04 ? 'leaves' : roll < 0.07 ? 'half' : 'stays',
    patienceMs: 10 + dice.below(90),
  }
}

function mutated(dice: Dice, corpus: readonly EdgeRequest[]): string {
  const request = dice.one(corpus)
  const lines = [...request.lines]
  let { body } = request
  for (let left = dice.below(4); left > 0; left -= 1) {
    const changes = body !== '' && dice.chance(0.6) ? BODY_CHANGES : HEAD_CHANGES
    body = dice.one(changes)(lines, body, dice, corpus)
  }
  // Most of what is wrong in a body would never be read behind a length that is wrong, too.
  const length = lines.findLastIndex((line) => line.startsWith('Content-Length: '))
  if (length >= 0 && dice.chance(0.8)) lines[length] = `Content-Length: ${body.length}`
  return textOf({ ...request, lines, body })
}

function inserted(text: string, token: string, dice: Dice): string {
  const at = dice.below(text.length + 1)
  return text.slice(0, at) + token + text.slice(at)
}

function flipped(text: string, dice: Dice): string {
  let changed = text
  for (let left = 1 + dice.below(3); left > 0 && changed !== ''; left -= 1) {
    const at = dice.below(changed.length)
    const byte = dice.chance(0.5) ? dice.below(256) : changed.charCodeAt(at) ^ (1 << dice.below(8))
    changed = changed.slice(0, at) + String.fromCharCode(byte & 0xff) + changed.slice(at + 1)
  }
  return changed
}

/** With one of the places that match replaced. */
function replacedOne(text: string, places: RegExp, by: readonly string[], dice: Dice): string {
  const matches = [...text.matchAll(places)]
  if (matches.length === 0) return text
  const match = dice.one(matches)
  return text.slice(0, match.index) + dice.one(by) + text.slice(match.index + match[0].length)
}

function pieces(text: string, dice: Dice): string[] {
  const cuts = Array.from({ length: 1 + dice.below(3) }, () => dice.below(text.length + 1)).sort(
    (a, b) => a - b,
  )
  return [...cuts, text.length]
    .map((end, index) => text.slice(cuts[index - 1] ?? 0, end))
    .filter((p) => p !== '')
}
