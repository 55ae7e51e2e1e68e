import t from 'tap'
import { WebSocket } from 'ws'
import type { LiveSample } from '../../src/contracts/console.ts'
import { startConsoleBench } from '../support/console-bench.ts'
import { startConsoleNode } from '../support/console-node.ts'
import { nodeSample } from '../support/console-record.ts'
import { liveAudio } from '../support/live-audio.ts'
import { LiveClient } from '../support/live-rig.ts'
import { waitUntil } from '../support/wait-until.ts'

const RATE = 16_000

type Session = Readonly<Record<string, unknown>> & { readonly id: string }

t.test('open sessions are listed, and ended by whoever may', async (t) => {
  const node = await startConsoleNode(t)
  const socket = new WebSocket(
    `${node.url.replace('http', 'ws')}/v1/transcription/stream?sample_rate=${RATE}`,
    'larkway.v1',
    { headers: { authorization: `Bearer ${node.keys.app}` } },
  )
  const caller = new LiveClient(t, socket)
  await caller.message('ready')
  const { pcm } = liveAudio('lark')
  await caller.speak(pcm)

  const admin = await node.signIn(node.keys.admin)
  const operator = await node.signIn(node.keys.operator)
  const foreign = await node.signIn(node.keys.foreignAdmin)
  const listed = async (visitor = admin, query = '') =>
    (await visitor.get(`/live${query}`)).body.sessions as Session[]
  const [session, ...more] = await listed()
  t.same(more, [])
  t.match(session, {
    id: /^live_/,
    workspace: 'acme',
    app: 'web',
    key_id: 'key_app',
    key_name: 'app',
    route: 'voice',
    entry: { provider: 'acme-own', model: 'morse-1' },
    audio_seconds: Math.round((pcm.length / RATE / 2) * 1000) / 1000,
    switches: 0,
    node: null,
  })
  t.match(await listed(operator), [{ id: session?.id, node: /:\d+$/ }])
  t.same(await listed(operator, '?workspace=other'), [])
  t.same(await listed(foreign), [])
  t.equal((await foreign.get('/live?workspace=acme')).status, 404)

  const end = `/workspaces/acme/live/${session?.id}/end`
  t.equal((await foreign.post(end)).status, 404)
  t.equal(
    (await operator.post(`/workspaces/other/live/${session?.id}/end`)).status,
    404,
    'of no other workspace',
  )
  t.equal((await admin.ask(end, { method: 'POST', body: {}, headers: { 'x-lk-csrf': 'x' } })).status, 403)
  t.equal((await listed()).length, 1)
  t.equal((await admin.post(end)).status, 200)
  t.match(await caller.message('going_away'), { seconds: 0, reason: 'operator' })
  t.match(await caller.message('done'), { content: 'lark' })
  t.equal(await caller.closed, 1000)
  t.same(await listed(), [])
  t.equal((await admin.post(end)).status, 404, 'it has ended')
  const { body } = await admin.get('/audit')
  t.match(body.lines, [
    {
      action: 'live.end',
      target: `live/${session?.id}`,
      detail: 'of the key key_app',
      by: { key_id: 'key_admin' },
    },
  ])
})

t.test('sessions of other nodes are listed as they told', async (t) => {
  const { state, visitors } = await startConsoleBench(t)
  const nowMs = Date.now()
  const sample: LiveSample = {
    ...{ id: 'live_1', workspace: 'acme', app: 'web', keyId: 'key_x', route: 'acme', entry: null },
    ...{ startedAtMs: nowMs - 2_000, audioSeconds: 1.5, switches: 2, costUsd: 0.25 },
  }
  const theirs = { ...sample, id: 'live_2', workspace: 'other', startedAtMs: nowMs - 1_000, characters: 20 }
  const live = { open: 2, sessions: [sample, theirs] }
  await state.console.samples.add(nodeSample('x:1', nowMs, { live }), 3_600_000)
  const { admin, operator } = visitors
  const ids = async (who = operator) =>
    ((await who.get('live')).body.sessions as Session[]).map(({ id }) => id)
  t.ok(await waitUntil(async () => (await ids()).length > 0, 10_000))
  t.same(await ids(), ['live_2', 'live_1'], 'newest first')
  t.match((await operator.get('live?workspace=other')).body.sessions, [
    { kind: 'speech', audio_seconds: null, characters: 20 },
  ])
  const { body } = await admin.get('live')
  t.same(body, {
    sessions: [
      {
        ...{ id: 'live_1', workspace: 'acme', app: 'web', key_id: 'key_x', key_name: null, route: 'acme' },
        ...{
          entry: null,
          started_at: new Date(nowMs - 2_000).toISOString(),
          kind: 'transcription',
          audio_seconds: 1.5,
          characters: null,
          switches: 2,
        },
        ...{ cost_usd: 0.25, node: null },
      },
    ],
    is_cut: false,
  })
})
