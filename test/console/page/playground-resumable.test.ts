import t, { type Test } from 'tap'
import { ApiError } from '../../../src/console/page/api.ts'
import { AppKeys } from '../../../src/console/page/views/playground/calls.ts'
import {
  deleteUpload,
  uploadBody,
  uploadResumably,
} from '../../../src/console/page/views/playground/resumable.ts'
import { startRouteGateway } from '../../support/route-gateway.ts'

const MIB = 1024 * 1024
/** Larger than two pieces, and different everywhere. */
const BYTES = Buffer.from(Uint32Array.from({ length: 2.5 * MIB }, (_, index) => index * 2_654_435_761).buffer)
const FILE = new File([BYTES], 'long.wav', { lastModified: 1 })

/** A gateway for a page, whose requests go through `around`: it may break them, before or behind the gateway. */
async function start(
  t: Test,
  around: (send: () => Promise<Response>, init: RequestInit) => Promise<Response>,
) {
  const gateway = await startRouteGateway(t, {
    providers: { sand: { kind: 'sandbox', access: 'byok' } },
    entries: [{ provider: 'sand', model: 'morse-1' }],
  })
  const { fetch: real } = globalThis
  t.teardown(() => {
    globalThis.fetch = real
  })
  globalThis.fetch = (path, init = {}) => around(() => real(gateway.url + path, init), init)
  const key = gateway.authorization.authorization.replace('Bearer ', '')
  const keys = new AppKeys(
    async (app) => ({ id: 'key_1', key, app, expires_at: new Date(Date.now() + 3_600_000).toISOString() }),
    { now: () => Date.now(), wait: async () => {} },
  )
  const kept = new Map<string, string>()
  const memory = {
    getItem: (name: string) => kept.get(name) ?? null,
    setItem: (name: string, value: string) => void kept.set(name, value),
    removeItem: (name: string) => void kept.delete(name),
  }
  const { signal } = new AbortController()
  const place = { keys, app: 'web', signal }
  const sent: number[] = []
  let broken = 0
  const upload = (within = place) =>
    uploadResumably(FILE, within, {
      onSent: (bytes) => sent.push(bytes),
      onBroken: () => {
        broken += 1
      },
      memory,
    })
  const lengthOf = async (id: string) =>
    (await (
      await real(`${gateway.url}/v1/uploads/${id}`, {
        headers: { ...gateway.authorization, 'tus-resumable': '1.0.0' },
      })
    ).json()) as object
  return { upload, place, sent, kept, broken: () => broken, lengthOf }
}

t.test('a connection that breaks loses nothing that was kept, and sends nothing twice', async (t) => {
  let patches = 0
  const rig = await start(t, async (send, { method }) => {
    if (method !== 'PATCH') return send()
    patches += 1
    if (patches === 2) throw new TypeError('fetch failed')
    const answer = await send()
    // The bytes are there, and nobody says so.
    if (patches === 3) throw new TypeError('fetch failed')
    return answer
  })
  const id = await rig.upload()
  t.equal(patches, 4, 'three pieces, one of them again')
  t.equal(rig.broken(), 2)
  t.same([...new Set(rig.sent)], [0, 4 * MIB, 8 * MIB, 10 * MIB])
  t.match(await rig.lengthOf(id), { offset: FILE.size, length: FILE.size })
  t.equal(rig.kept.size, 0, 'it is not remembered any more')
  await deleteUpload(id, rig.place)
  t.match(await rig.lengthOf(id), { error: { code: 'NOT_FOUND' } })
})

t.test('the same file goes on where the page was left', async (t) => {
  const leaving = new AbortController()
  const rig = await start(t, async (send, { method }) => {
    const answer = await send()
    if (method === 'PATCH' && !leaving.signal.aborted) leaving.abort(new Error('left'))
    return answer
  })
  await t.rejects(rig.upload({ ...rig.place, signal: leaving.signal }), { message: 'left' })
  const [remembered] = rig.kept.values()
  rig.sent.length = 0
  t.equal(await rig.upload(), remembered)
  t.equal(rig.sent[0], 4 * MIB)
  rig.kept.set(`larkway-upload/web/${FILE.size}/1/long.wav`, `upl_${'a'.repeat(26)}`)
  t.not(await rig.upload(), remembered, 'one that is gone is begun anew')
})

t.test('what does not get better is not tried again', async (t) => {
  let asked = 0
  const rig = await start(t, async (send, { method }) => {
    if (method !== 'PATCH') return send()
    asked += 1
    return new Response('{"error":{"code":"QUOTA","message":"no"}}', { status: 413 })
  })
  await t.rejects(rig.upload(), ApiError)
  t.equal(asked, 1)
})

t.test('the fields of a form as JSON', async (t) => {
  const fields = [
    ['language', 'en'],
    ['diarization', 'true'],
    ['keyterms[]', 'one'],
    ['keyterms[]', 'true'],
  ] as const
  t.same(uploadBody(fields, 'upl_1'), {
    audio: { upload_id: 'upl_1' },
    language: 'en',
    diarization: true,
    keyterms: ['one', 'true'],
  })
})
