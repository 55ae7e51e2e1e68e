import fc from 'fast-check'
import t from 'tap'
import { SseParser } from '../../../src/gateway/providers/sse.ts'

/** The data of the events in `text`, pushed in chunks of `size` bytes. */
function read(text: string | Uint8Array, size = Number.POSITIVE_INFINITY): string[] {
  const parser = new SseParser()
  const bytes = Buffer.from(text)
  const events: string[] = []
  for (let at = 0; at < bytes.length; at += size) events.push(...parser.push(bytes.subarray(at, at + size)))
  return events
}

t.test('events', async (t) => {
  const rows: [what: string, text: string, events: string[]][] = [
    ['one event', 'data: a\n\n', ['a']],
    ['no blank behind the colon, or two', 'data:a\n\ndata:  b\n\n', ['a', ' b']],
    ['lines of one event', 'data: a\ndata\ndata: b\n\n', ['a\n\nb']],
    ['comments and other fields', ': hello\nid: 7\nevent: ping\nretry: 1\ndata: a\nDATA: b\n\n', ['a']],
    ['an event without data', 'event: ping\n\ndata: a\n\n', ['a']],
    ['empty data', 'data:\n\n', ['']],
    ['CR LF', 'data: a\r\ndata: b\r\n\r\n', ['a\nb']],
    ['CR', 'data: a\rdata: b\r\rdata: c\r\r', ['a\nb', 'c']],
    ['all ends of lines at once', 'data: a\r\n\rdata: b\n\r\ndata: c\r\n\n', ['a', 'b', 'c']],
    ['a byte order mark', '\ufeffdata: a\n\n', ['a']],
    ['what no empty line ends', 'data: a\n\ndata: b\n', ['a']],
    ['characters of many bytes', 'data: Zürich 🏔\n\n', ['Zürich 🏔']],
    ['nothing', '', []],
  ]
  for (const [what, text, events] of rows) {
    for (const size of [1, 2, 3, 1000]) t.same(read(text, size), events, `${what}, ${size} bytes at a time`)
  }
  t.same(
    read(Uint8Array.of(...Buffer.from('data: '), 0xff, 0x0a, 0x0a)),
    ['\ufffd'],
    'bytes that are no UTF-8',
  )
})

t.test('a stream means the same however it is cut', async (t) => {
  const part = fc.constantFrom('\n', '\r', '\r\n', 'data', ':', ' ', 'a', 'ü', '🏔', 'data: x\n\n')
  const text = fc.array(part, { maxLength: 30 }).map((parts) => parts.join(''))
  const property = fc.property(
    text,
    fc.integer({ min: 1, max: 9 }),
    (given, size) => read(given, size).join('|') === read(given).join('|'),
  )
  t.doesNotThrow(() => fc.assert(property, { numRuns: 500 }))
})

t.test('an event of many megabytes costs no more than its length', { timeout: 60_000 }, async (t) => {
  const MEBIBYTES = 8
  const segment = Buffer.alloc(1_460, 'a')
  const parser = new SseParser()
  const startMs = performance.now()
  parser.push(Buffer.from('data: '))
  for (let length = 0; length < MEBIBYTES * 1024 ** 2; length += segment.length) parser.push(segment)
  const [event] = parser.push(Buffer.from('\n\n'))
  t.ok((event?.length ?? 0) >= MEBIBYTES * 1024 ** 2)
  t.equal(read('a\n'.repeat(1024 ** 2)).length, 0, 'many short lines at once')
  // Looking at every character again with every segment would take over 15 s.
  t.ok(performance.now() - startMs < 5_000, `${performance.now() - startMs} ms`)
})

t.test(
  'an event without an end in sight is given up after 64 Mi characters',
  { timeout: 60_000 },
  async (t) => {
    const line = `data: ${'a'.repeat(1_000)}\n`
    const chunks = { 'one line': Buffer.alloc(1024 ** 2, 'a'), 'many lines': Buffer.from(line.repeat(1_000)) }
    for (const [what, chunk] of Object.entries(chunks)) {
      const parser = new SseParser()
      const pushUntilRefused = () => {
        for (let pushes = 0; pushes < 200; pushes += 1) parser.push(chunk)
      }
      t.throws(pushUntilRefused, RangeError, what)
    }
  },
)
