import { readFile } from 'node:fs/promises'
import { STATUS_CODES } from 'node:http'
import t from 'tap'
import { countedEdge } from '../../support/edge-outcome.ts'
import { RawClient } from '../../support/raw-client.ts'
import { bytesOf } from './framing-vectors.ts'

/** Requests by how the manual has them. */
const REQUESTS: Readonly<Record<string, string>> = {
  'has no `Host`': 'GET / HTTP/1.1⏎X: a⏎⏎',
  'has two `Host`': 'G¹ Host: b⏎⏎',
  'has a line without a colon': 'G¹ Foo⏎⏎',
  'has a control character in a header': 'G¹ X: a\x01b⏎⏎',
  'has both `Content-Length` and `Transfer-Encoding`': 'P¹ CL: 5⏎TE: chunked⏎⏎0⏎⏎',
  'has a `Content-Length` that is no number': 'P¹ CL: x⏎⏎hello',
  'has a chunk whose size begins with no digit': 'C¹ +5⏎hello⏎0⏎⏎',
  'has headers over 16 KiB': 'G¹ X: <a×17000>⏎⏎',
  'is of another version than HTTP/1.1': 'GET / HTTP/2.0⏎Host: a⏎⏎',
  'has a target that does not begin with `/`': 'GET http://evil/ HTTP/1.1⏎Host: a⏎⏎',
}

t.test('the native parser refuses what the manual says, and as it says', async (t) => {
  const manual = await readFile(new URL('../../../docs/api.md', import.meta.url), 'utf8')
  const [, text = ''] = manual.split('### Errors that are not JSON')
  const rows = [...text.matchAll(/^\| (\d{3}) \| (.+) \|$/gm)].map(([, status, request]) => [request, status])
  t.same(
    rows.map(([request]) => request),
    Object.keys(REQUESTS),
  )
  const { port, handled } = await countedEdge(t)
  for (const [request = '', status = ''] of rows) {
    const client = await RawClient.connect(port)
    await client.send(bytesOf(REQUESTS[request] ?? ''))
    const answer = await client.rest(2_000)
    t.match(answer, `HTTP/1.1 ${status} `, request)
    t.match(answer, `<h1>${STATUS_CODES[Number(status)]}</h1>`, request)
    t.ok(await client.closes(2_000), request)
    client.destroy()
  }
  t.same(handled, [])
})

t.test('no answer says which server made it', async (t) => {
  const { origin } = await countedEdge(t)
  t.equal((await fetch(`${origin}/`)).headers.get('uwebsockets'), null)
})
