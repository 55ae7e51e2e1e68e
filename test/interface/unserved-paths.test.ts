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
