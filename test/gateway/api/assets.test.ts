import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import t from 'tap'
import { serveAsset } from '../../../src/gateway/api/assets.ts'
import type { Exchange } from '../../../src/gateway/edge/exchange.ts'

const exchange = (headers: Readonly<Record<string, string>>) => ({ headers }) as Exchange
const TEXT = 'a lark in the morning. '.repeat(100)

t.test('a client gets what it takes, and nothing that it has', async (t) => {
  let loaded = 0
  const load = async () => {
    loaded += 1
    return TEXT
  }
  const answer = serveAsset({ type: 'text/css', load, headers: { 'x-more': '1' } })
  t.equal(loaded, 0, 'nothing is read before the first request')

  const plain = await answer(exchange({}))
  t.match(plain, {
    status: 200,
    headers: { 'content-type': 'text/css', 'x-more': '1', vary: 'accept-encoding' },
  })
  t.equal(String(plain.body), TEXT)
  const zipped = await answer(exchange({ 'accept-encoding': 'br;q=0, gzip;q=0.5' }))
  t.equal(zipped.headers?.['content-encoding'], 'gzip')
  t.equal(gunzipSync(zipped.body as Uint8Array).toString(), TEXT)
  const smallest = await answer(exchange({ 'accept-encoding': 'gzip, deflate, br, zstd' }))
  t.equal(smallest.headers?.['content-encoding'], 'br')
  t.equal(brotliDecompressSync(smallest.body as Uint8Array).toString(), TEXT)
  t.equal(loaded, 1)

  const [tag = '', zippedTag = '', smallestTag = ''] = [plain, zipped, smallest].map(
    ({ headers }) => headers?.etag,
  )
  t.equal(new Set([tag, zippedTag, smallestTag]).size, 3, 'different bytes have different tags')
  const rows: readonly (readonly [Record<string, string>, number])[] = [
    [{ 'if-none-match': tag }, 304],
    [{ 'if-none-match': `"x", W/${tag}` }, 304],
    [{ 'if-none-match': '*' }, 304],
    [{ 'if-none-match': zippedTag }, 200],
    [{ 'if-none-match': '"x"' }, 200],
    [{ 'if-none-match': zippedTag, 'accept-encoding': 'gzip' }, 304],
    [{ 'if-none-match': tag, 'accept-encoding': 'gzip' }, 200],
    [{ 'if-none-match': zippedTag, 'accept-encoding': 'gzip, br' }, 200],
    [{ 'if-none-match': smallestTag, 'accept-encoding': 'gzip, br' }, 304],
  ]
  for (const [headers, status] of rows) {
    const { status: given, body } = await answer(exchange(headers))
    t.equal(given, status, JSON.stringify(headers))
    if (status === 304) t.equal(body, '')
  }
  for (const coding of ['gzip;q=0', 'identity', 'br;q=0', 'xgzip', 'brr', '*;q=0.0'])
    t.notOk((await answer(exchange({ 'accept-encoding': coding }))).headers?.['content-encoding'], coding)
  t.equal((await answer(exchange({ 'accept-encoding': '*' }))).headers?.['content-encoding'], 'gzip', '*')
})

t.test('what could not be read is read again for the next one', async (t) => {
  let tries = 0
  const load = async () => {
    tries += 1
    if (tries === 1) throw new Error('no such file')
    return TEXT
  }
  const answer = serveAsset({ type: 'text/css', load })
  await t.rejects(answer(exchange({})), { message: 'no such file' })
  t.equal((await answer(exchange({}))).status, 200)
})
