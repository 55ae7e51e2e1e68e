import { readFile } from 'node:fs/promises'
import t from 'tap'
import { assertStopsClean, startGateway } from '../support/gateway.ts'

const PAGES = ['deepgram', 'elevenlabs', 'assemblyai']

t.test('paths that the manual says are not served are 404', async (t) => {
  const gateway = await startGateway(t)
  for (const page of PAGES) {
    const text = await readFile(new URL(`../../docs/moving-from-${page}.md`, import.meta.url), 'utf8')
    const [, list = ''] = text.split('\n## Not served\n')
    const rows = [...list.matchAll(/^- `(GET|POST) (\S+)`/gm)]
    t.ok(rows.length > 0, `${page} has a list`)
    for (const [, method = '', path = ''] of rows) {
      const headers = { authorization: `Bearer ${gateway.key}` }
      const body = method === 'POST' ? '{}' : null
      const response = await fetch(`${gateway.url}${path}`, { method, headers, body })
      t.equal(response.status, 404, `${method} ${path}`)
      await response.body?.cancel()
    }
  }
  await assertStopsClean(t, gateway)
})

t.test('unknown paths and methods of a door are refused in the shape of its vendor', async (t) => {
  const gateway = await startGateway(t)
  const shapes = {
    openai: { error: { code: 'NOT_FOUND', type: 'not_found', message: String } },
    deepgram: {
      err_code: 'NOT_FOUND',
      err_msg: String,
      request_id: /^[0-9a-f-]{36}$/,
      error: { code: 'NOT_FOUND' },
    },
    elevenlabs: { detail: { code: 'NOT_FOUND', status: 'NOT_FOUND', message: String }, error: Object },
    assemblyai: { error: /^NOT_FOUND: /, code: 'NOT_FOUND', request_id: /^req_/ },
  }
  for (const [door, shape] of Object.entries(shapes)) {
    const response = await fetch(`${gateway.url}/${door}/v9/nothing`, { method: 'POST', body: '{}' })
    t.equal(response.status, 404, door)
    t.match(await response.json(), shape, door)
  }
  const wrong = await fetch(`${gateway.url}/deepgram/v1/models`, { method: 'DELETE' })
  t.equal(wrong.status, 405)
  t.equal(wrong.headers.get('allow'), 'GET, HEAD')
  t.match(wrong.headers.get('dg-request-id'), /^[0-9a-f-]{36}$/)
  t.match(await wrong.json(), { err_code: 'METHOD_NOT_ALLOWED' })
  const own = await fetch(`${gateway.url}/v9/nothing`)
  t.notMatch(await own.text(), /err_code/, 'other paths as before')
  await assertStopsClean(t, gateway)
})
