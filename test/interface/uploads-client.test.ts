import t from 'tap'
import { Upload, type UploadOptions } from 'tus-js-client'
import { cuttingProxy } from '../support/cutting-proxy.ts'
import { Dice } from '../support/dice.ts'
import { heardOf, MIB, noisyWav, tusUpload, uploadRoute } from '../support/uploads.ts'

t.test('a provider is sent the very bytes, however a client sends them', async (t) => {
  const { authorization, start } = await uploadRoute(t)
  const { url, heard } = await start()
  const bytes = noisyWav(6 * MIB + 123)
  const ways: Record<string, Partial<UploadOptions>> = {
    'in one request': {},
    'with the creation': { uploadDataDuringCreation: true },
    'in pieces of a million': { chunkSize: 1_000_000 },
    'in pieces, the first with the creation': { chunkSize: 2 * MIB, uploadDataDuringCreation: true },
    'in three parts at once': { parallelUploads: 3 },
    'in parts and pieces': { parallelUploads: 2, chunkSize: 700_000 },
    'with a method that proxies let through': { overridePatchMethod: true },
  }
  for (const [name, options] of Object.entries(ways)) {
    const id = await tusUpload(url, authorization, bytes, options)
    t.equal(await heard(id), heardOf(bytes), name)
  }
})

t.test('a page needs no key but a token for its upload', async (t) => {
  const { authorization, start } = await uploadRoute(t)
  const { url, heard } = await start()
  const bytes = noisyWav(MIB)
  const made = await fetch(`${url}/v1/uploads/tokens`, {
    method: 'POST',
    headers: { ...authorization, 'content-type': 'application/json' },
    body: '{}',
  })
  const { token, upload_id } = (await made.json()) as { token: string; upload_id: string }
  t.equal(await tusUpload(url, { authorization: `Bearer ${token}` }, bytes), upload_id)
  t.equal(await heard(upload_id), heardOf(bytes))
})

t.test('an upload whose connection is cut 100 times arrives whole', async (t) => {
  const { authorization, start } = await uploadRoute(t)
  const { port, heard } = await start()
  const dice = new Dice(7)
  const proxy = await cuttingProxy(t, port, () => 2_000 + dice.below(MIB))
  const bytes = noisyWav(24 * MIB)
  const id = await tusUpload(proxy.url, authorization, bytes)
  t.ok(proxy.cuts >= 100, `${proxy.cuts} cuts`)
  t.equal(await heard(id), heardOf(bytes))
})

t.test('an upload that is given up is gone', async (t) => {
  const { authorization, start } = await uploadRoute(t)
  const { url } = await start()
  const id = await tusUpload(url, authorization, noisyWav(MIB))
  await Upload.terminate(`${url}/v1/uploads/${id}`, { headers: authorization })
  t.equal((await fetch(`${url}/v1/uploads/${id}`, { headers: authorization })).status, 404)
})
