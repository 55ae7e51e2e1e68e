import t from 'tap'
import { speak } from '../../src/sandbox/speak.ts'
import { type ConsoleNode, startConsoleNode, type Visitor } from '../support/console-node.ts'

let node: ConsoleNode
let admin: Visitor

t.before(async () => {
  node = await startConsoleNode(t)
  admin = await node.signIn(node.keys.admin)
})

const EXPLAIN = '/workspaces/acme/explain'
const plain = { provider: 'acme-own', model: 'plain', capabilities: ['audio_input'], features: [] }
const able = { provider: 'acme-own', model: 'morse-1' }
const explain = (body: object) => admin.post(EXPLAIN, { endpoint: 'transcription', ...body })

t.test('says who would serve of what is being edited, and why the others would not', async (t) => {
  const fields = { entries: [plain, able] }
  const first = await explain({ route: 'acme.new', fields })
  t.match(first.body, {
    refusal: null,
    issues: [],
    entries: [
      { model: 'plain', rank: 1 },
      { model: 'morse-1', rank: 2 },
    ],
  })
  const spoken = await explain({ route: 'acme.new', fields, sample: { features: ['diarization'] } })
  t.match(spoken.body, {
    refusal: null,
    entries: [
      { model: 'plain', rank: null, left: 'features', missing: ['diarization'] },
      { model: 'morse-1', rank: 1 },
    ],
  })
  const none = await explain({
    route: 'acme.new',
    fields: { entries: [plain] },
    sample: { features: ['diarization'] },
  })
  t.match(none.body, { refusal: { code: 'REQUIRED_FEATURE_UNAVAILABLE' }, entries: [{ rank: null }] })
  const together = await explain({
    route: 'acme.new',
    fields: { entries: [able] },
    sample: { features: ['diarization', 'word_timestamps'] },
  })
  t.match(together.body, {
    refusal: { code: 'REQUIRED_FEATURE_UNAVAILABLE' },
    entries: [{ rank: null, left: 'features', conflict: ['word_timestamps', 'diarization'] }],
  })
  const large = { ...plain, limits: { max_audio_bytes: 1000 } }
  const limited = await explain({
    route: 'acme.new',
    fields: { entries: [large, able] },
    sample: { audio: { bytes: 1001 } },
  })
  t.match(limited.body, { entries: [{ left: 'limits', param: 'audio' }, { rank: 1 }] })
  const faulty = await explain({
    route: 'acme.new',
    fields: { entries: [{ provider: 'nobody', model: 'x' }] },
  })
  t.match(faulty, {
    status: 200,
    body: { entries: [], issues: ['/entries/0/provider: there is no provider "nobody"'] },
  })
  t.equal((await admin.get('/workspaces/acme/routes/acme.new')).status, 404, 'nothing of it is kept')
})

t.test('of an app it is what is in force, or as if the fields were', async (t) => {
  t.match((await explain({ app: 'web' })).body, {
    entries: [{ route: 'voice', provider: 'acme-own', rank: 1 }],
  })
  const saved = await admin.put('/workspaces/acme/routes/acme.mine/draft', {
    fields: { entries: [able] },
    revision: null,
  })
  t.match(
    (await explain({ route: 'acme.mine' })).body,
    { entries: [{ route: 'acme.mine', rank: 1 }] },
    'a draft, before it is published',
  )
  await admin.post('/workspaces/acme/routes/acme.mine/publish', {
    revision: (saved.body.draft as { revision: number }).revision,
  })
  await admin.put('/workspaces/acme/apps/mine', { route: 'voice', purposes: { notes: 'acme.mine' } })
  const noted = await explain({ app: 'mine', sample: { purpose: 'notes' } })
  t.match(noted.body, { entries: [{ route: 'acme.mine', rank: 1 }] })
  const edited = await explain({
    app: 'mine',
    sample: { purpose: 'notes' },
    route: 'acme.mine',
    fields: { entries: [{ ...able, model: 'morse-1-mini' }] },
  })
  t.match(edited.body, { entries: [{ route: 'acme.mine', model: 'morse-1-mini', rank: 1 }] })
  const tagged = {
    entries: [
      { ...able, purposes: ['notes'] },
      { ...able, model: 'morse-1-mini' },
    ],
  }
  const swapped = { entries: [...tagged.entries].reverse() }
  t.match(
    (await explain({ route: 'acme.x', fields: swapped, sample: { purpose: 'notes' } })).body,
    {
      entries: [
        { model: 'morse-1', rank: 1 },
        { model: 'morse-1-mini', rank: 2 },
      ],
    },
    'without an app, as if one bound every purpose to it',
  )
})

t.test('breakers of this node count', async (t) => {
  const failing = { provider: 'acme-own', model: 'morse-1', options: { status: 503 } }
  const fields = { entries: [failing, { provider: 'acme-own', model: 'morse-1-mini' }] }
  const path = '/workspaces/acme/routes/acme.failing'
  const saved = await admin.put(`${path}/draft`, { fields, revision: null })
  await admin.post(`${path}/publish`, { revision: (saved.body.draft as { revision: number }).revision })
  await admin.put('/workspaces/acme/apps/failing', { route: 'acme.failing' })
  const { body } = await admin.post('/workspaces/acme/keys', { name: 'failing', app: 'failing' })
  const headers = { authorization: `Bearer ${body.key}`, 'content-type': 'audio/wav' }
  for (let call = 0; call < 6; call++)
    t.equal(
      (await fetch(`${node.url}/v1/transcription`, { method: 'POST', headers, body: speak('e', 600, 12) }))
        .status,
      200,
    )
  t.match((await explain({ app: 'failing' })).body, {
    entries: [{ left: /breaker|cooling/, rank: null, breaker: /open|cooling/ }, { rank: 1 }],
  })
  const alone = { entries: [{ ...failing, options: { status: 500 } }] }
  const route = '/workspaces/acme/routes/acme.alone'
  const drafted = await admin.put(`${route}/draft`, { fields: alone, revision: null })
  await admin.post(`${route}/publish`, { revision: (drafted.body.draft as { revision: number }).revision })
  await admin.put('/workspaces/acme/apps/failing', { route: 'acme.alone' })
  for (let call = 0; call < 6; call++)
    await fetch(`${node.url}/v1/transcription`, { method: 'POST', headers, body: speak('e', 600, 12) })
  t.match(
    (await explain({ app: 'failing' })).body,
    { entries: [{ rank: 1, last_resort: true, breaker: 'open' }] },
    'the only entry would be tried, and is not said to be well',
  )
  await admin.put('/workspaces/acme/apps/failing', { route: 'acme.failing' })
  const more = {
    entries: [...fields.entries, { provider: 'acme-own', model: 'whisper-1', capabilities: ['audio_input'] }],
  }
  t.match(
    (await explain({ app: 'failing', route: 'acme.failing', fields: more })).body,
    { entries: [{ left: /breaker|cooling/ }, { rank: 1 }, { rank: 2 }] },
    'also for an edit that leaves the entry as it is',
  )
})

t.test('samples that cannot be sent are refused', async (t) => {
  const rows: [object, string][] = [
    [{ endpoint: 'telepathy', app: 'web' }, 'endpoint'],
    [{ app: 'web', sample: { features: ['mind'] } }, 'sample.features[0]'],
    [{ app: 'web', sample: { audio: { bytes: -1 } } }, 'sample.audio.bytes'],
    [{ app: 'web', sample: { characters: 200_001 } }, 'sample.characters'],
    [{ app: 'web', sample: { characters: 200_000, count: 11 } }, 'sample.count'],
    [{}, 'app'],
    [{ fields: {} }, 'route'],
    [{ app: 'web', key: 'x' }, 'key'],
  ]
  for (const [body, param] of rows)
    t.match(await explain(body), { status: 400, body: { error: { code: 'INVALID_REQUEST', param } } }, param)
  t.match(await explain({ app: 'nobody' }), {
    status: 404,
    body: { error: { message: 'there is no such app' } },
  })
  for (const route of ['other-voice', 'nothing'])
    t.match(await explain({ route }), { status: 404, body: { error: { message: 'there is no such route' } } })
  t.match(
    (
      await admin.post(EXPLAIN, {
        endpoint: 'embeddings',
        app: 'web',
        sample: { characters: 1000, count: 2000 },
      })
    ).status,
    200,
  )
})
