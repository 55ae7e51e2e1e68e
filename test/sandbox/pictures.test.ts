import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { describePicture } from '../../src/sandbox/picture.ts'
import { startSandbox } from '../../src/sandbox/server.ts'

const sandbox = await startSandbox()
t.teardown(() => sandbox.close())

const post = async (path: string, body: object) =>
  (
    await fetch(`${sandbox.url}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'morse-1', ...body }),
    })
  ).json() as Promise<Record<string, unknown>>

t.test('a picture says its prompt, at any size', async (t) => {
  for (const size of ['1024x1024', '640x360', '100x300']) {
    const { data } = (await post('/images/generations', { prompt: 'Hello, world!', n: 2, size })) as {
      data: { b64_json: string }[]
    }
    t.equal(data.length, 2)
    const picture = Buffer.from(data[0]?.b64_json ?? '', 'base64')
    t.equal(describePicture(picture, 'image/png'), 'hello, world!', size)
  }
})

t.test(
  'what is no picture of ours is described, and nothing that claims to be huge is unpacked',
  async (t) => {
    t.equal(describePicture(Buffer.from('GIF89a'), 'image/gif'), '6 bytes of image/gif')
    const { data } = (await post('/images/generations', { prompt: 'a', size: '64x64' })) as {
      data: { b64_json: string }[]
    }
    const picture = Buffer.from(data[0]?.b64_json ?? '', 'base64')
    const huge = Buffer.from(picture)
    huge.writeUInt32BE(0xffff_ffff, 16)
    t.match(describePicture(huge, 'image/png'), /bytes of image\/png$/)
    t.match(describePicture(picture.subarray(0, 60), 'image/png'), /bytes of image\/png$/)
  },
)

t.test('a film is made, fetched and deleted', async (t) => {
  const created = await post('/videos', { prompt: 'sos', seconds: '4', size: '160x90' })
  t.match(created, { object: 'video', status: 'in_progress', seconds: '4', size: '160x90' })
  const at = `${sandbox.url}/videos/${created.id}`
  t.equal((await fetch(`${at}/content`)).status, 400, 'not ready')
  for (let tries = 0; tries < 50; tries += 1) {
    const { status } = (await (await fetch(at)).json()) as { status: string }
    if (status === 'completed') break
    await sleep(100)
  }
  const response = await fetch(`${at}/content?variant=video`)
  t.equal(response.headers.get('content-type'), 'video/quicktime')
  const film = Buffer.from(await response.arrayBuffer())
  t.equal(film.toString('latin1', 4, 8), 'ftyp')
  t.ok(film.includes('moov') && film.includes('IHDR'))
  t.match(await (await fetch(at, { method: 'DELETE' })).json(), { deleted: true })
  t.equal((await fetch(at)).status, 404)
})

t.test('a prompt that cannot be filmed fails as a job', async (t) => {
  const { id } = await post('/videos', { prompt: 'ÄÖ' })
  await sleep(1_200)
  t.match(await (await fetch(`${sandbox.url}/videos/${id}`)).json(), {
    status: 'failed',
    error: { code: 'invalid_prompt' },
  })
})
