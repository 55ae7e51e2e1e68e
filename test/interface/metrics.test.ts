import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { scrape } from '../support/exposition.ts'
import { startGateway } from '../support/gateway.ts'
import { LIVE_SECONDS, SLOW_MS, SPOKEN, startMeteredNode } from '../support/metered-node.ts'
import { RawClient } from '../support/raw-client.ts'
import { startRouteGateway } from '../support/route-gateway.ts'
import { startUpstream } from '../support/upstream/upstream.ts'
import { waitUntil } from '../support/wait-until.ts'

t.test('without a port nothing is served', async (t) => {
  const larkway = await startGateway(t)
  t.notOk(larkway.log.some((line) => 'metrics_port' in line))
  t.equal((await fetch(`${larkway.url}/metrics`)).status, 404, 'not at the main door either')
})

t.test('a node that has served tells what it did', { timeout: 120_000 }, async (t) => {
  const node = await startMeteredNode(t)
  await node.serveTraffic()
  const { value, types, text, samples } = await node.scrape()

  const requests = (route: string, status: string) => value('larkway_requests_total', { route, status })
  t.equal(requests('/v1/chat', '200'), 4)
  t.equal(requests('/v1/chat', '502'), 1)
  t.equal(requests('/v1/me', '401'), 1)
  t.equal(requests('/workspace/:tenant_id/stt-webhook', '200'), 1, 'the pattern, not the path')
  t.equal(requests('none', '404'), 1)
  t.equal(value('larkway_request_duration_seconds_count', { route: '/v1/chat' }), 5)
  t.equal(value('larkway_request_overhead_seconds_count', { route: '/v1/chat' }), 5)
  t.equal(value('larkway_request_failures_total', { code: 'UPSTREAM_ERROR' }), 1)
  t.equal(value('larkway_requests_in_flight'), 0)
  t.ok(Number(value('larkway_request_body_bytes_total', { route: '/v1/transcription' })) > 40_000)
  t.ok(Number(value('larkway_response_body_bytes_total', { route: '/v1/speech' })) > 10_000)

  const chats = { gen_ai_operation_name: 'chat', gen_ai_request_model: 'morse-1' }
  const duration = 'gen_ai_client_operation_duration_seconds_count'
  t.equal(value(duration, { ...chats, provider: 'sandbox', error_type: '' }), 4, 'one of them for a job')
  t.equal(value(duration, { ...chats, provider: 'ill', error_type: 'server' }), 2)
  t.equal(value('gen_ai_client_operation_time_to_first_chunk_seconds_count', chats), 1)
  const heard = { gen_ai_operation_name: 'transcription' }
  t.ok(Number(value(duration, heard)) > 1, 'of a file, and of a live session')
  t.notOk(
    value('gen_ai_client_operation_time_to_first_chunk_seconds_count', heard),
    'a live session has connected, which is no piece of an answer',
  )
  t.ok(Number(value('gen_ai_client_token_usage_sum', { gen_ai_token_type: 'output' })) > 0)
  t.equal(value('larkway_attempts_total', { operation: 'chat', outcome: 'ok' }), 5)
  t.equal(value('larkway_attempts_total', { operation: 'chat', outcome: 'server' }), 2)
  t.equal(value('larkway_failovers_total', { operation: 'chat', provider: 'sandbox' }), 1)
  const audio = value('larkway_audio_seconds_total', { operation: 'transcription' })
  t.equal(audio, 2 + LIVE_SECONDS, 'one second for a job')
  t.equal(value('larkway_speech_characters_total'), 2 * 'hello'.length + SPOKEN.length)
  t.equal(value('larkway_attempts_total', { operation: 'speech', outcome: 'ok' }), 2, 'once, and live')
  t.equal(value('larkway_speech_cache_total', { outcome: 'miss' }), 1)
  t.equal(value('larkway_speech_cache_total', { outcome: 'hit' }), 1)
  t.ok(Number(value('larkway_speech_cache_bytes_total')) > 0)
  t.equal(value('larkway_speech_cache_evictions_total'), 0)
  t.equal(value('larkway_images_total'), 1)
  t.ok(Number(value('larkway_video_seconds_total')) > 0)
  t.equal(value('larkway_slots', { provider: 'sandbox', state: 'limit' }), 50)
  t.equal(value('larkway_slots', { provider: 'sandbox', state: 'held' }), 0, 'each call gave its own back')
  t.equal(value('larkway_slots', { provider: 'ill' }), undefined, 'it has no limit')
  const waits = Number(value('larkway_slot_wait_seconds_count', { provider: 'sandbox' }))
  t.ok(waits > 5, `${waits} calls took a permit`)
  t.equal(value('larkway_replica_up', { provider: 'pooled', replica: '0' }), 0, 'no one listens there')
  t.equal(value('larkway_replica_up', { provider: 'pooled', replica: '1' }), 1)
  t.equal(value('larkway_replica_calls', { provider: 'pooled' }), 0)
  t.equal(value('larkway_replica_ejections_total', { provider: 'pooled', replica: '1' }), 0)
  t.equal(value('larkway_replica_up', { provider: 'ill' }), undefined, 'it has one address')
  t.equal(value('larkway_breaker_state', { route: 'failing', entry: '0' }), 0)

  await t.test('live sessions', async (t) => {
    t.equal(value('larkway_live_sessions'), 0)
    t.equal(value('larkway_live_held_bytes'), 0)
    t.ok(Number(value('larkway_live_held_limit_bytes')) > 0)
    for (const kind of ['transcription', 'speech'])
      t.equal(value('larkway_live_sessions_ended_total', { kind, end: 'completed' }), 1)
    t.equal(value('larkway_live_sessions_ended_total'), 2)
    t.equal(value('larkway_live_spoken_characters_total', { provider: 'sandbox' }), SPOKEN.length)
    t.equal(value('larkway_live_first_audio_seconds_count'), 1)
    t.equal(value('larkway_live_voice_switches_total'), 0)
    t.equal(value('larkway_live_switches_total', { provider: 'ill', reason: 'server' }), 1)
    t.equal(value('larkway_live_connect_seconds_count'), 2)
    const [ill, well] = ['ill', 'sandbox'].map((provider) =>
      value('larkway_live_session_seconds_total', { provider }),
    )
    // How much of its second is left to the ill one is the machine's: it begins once it is connected.
    t.ok(Number(ill) > 0 && Number(well) > Number(ill), `${ill} and ${well} s`)
    const replayed = Number(value('larkway_live_replayed_seconds_total', { provider: 'sandbox' }))
    t.ok(replayed > 0 && replayed < LIVE_SECONDS, `${replayed} s were sent again`)
    t.equal(value('larkway_live_lost_seconds_total', { provider: 'sandbox' }), 0)
    for (const text of ['partial', 'final']) {
      const said = value('larkway_live_text_latency_seconds_count', { provider: 'sandbox', text })
      t.ok(Number(said) > 0, `${said} of ${text}`)
    }
  })

  t.equal(value('larkway_webhook_deliveries_total', { outcome: 'delivered' }), 1)
  t.equal(value('larkway_jobs_ended_total', { kind: 'transcription', status: 'succeeded' }), 1)
  t.equal(value('larkway_jobs_ended_total', { kind: 'queue', status: 'succeeded' }), 1)
  t.equal(value('larkway_queue_jobs', { mode: 'bulk' }), 0)
  t.equal(value('larkway_queue_oldest_seconds', { mode: 'bulk' }), 0)
  t.equal(value('larkway_state_up'), 1)
  t.equal(value('larkway_limiter_mode', { mode: 'process' }), 1)
  t.ok(Number(value('larkway_limiter_decisions_total', { by: 'process' })) >= 10)
  t.ok(Number(value('larkway_memory_limit_bytes')) > 0)
  t.ok(Number(value('process_resident_memory_bytes')) > 0)
  // Of two scrapes that follow each other the second has none.
  const lag = async () => Number((await node.scrape()).value('nodejs_eventloop_lag_p99_seconds'))
  t.ok(await waitUntil(async () => (await lag()) > 0))

  await t.test('money is that of the account', async (t) => {
    const { billing } = (await (await node.ask('GET', '/v1/me')).json()) as {
      billing: { credits_usd: number; spent_usd: number }
    }
    const spent = value('larkway_spent_usd_total', { access: 'platform' }) ?? 0
    t.ok(spent > 0)
    t.ok(Math.abs(spent - (100 - billing.credits_usd)) < 1e-6, `${spent} of ${billing.credits_usd}`)
  })

  for (const [name, type] of types) {
    t.ok(/^(larkway|gen_ai|process|nodejs)_/.test(name), name)
    if (type === 'counter') t.ok(/_total$/.test(name), `${name} is a counter`)
  }
  const secrets = [node.authorization.slice(7), 'req_', 'tj_', 'qj_', 'evt_', 'http', 'hello', 'lark ']
  for (const secret of secrets) {
    const told = samples.some(({ labels }) => Object.values(labels).some((label) => label.includes(secret)))
    t.notOk(told, `${secret.slice(0, 8)} is in no label`)
  }
  t.notOk(text.includes(node.authorization.slice(7)))
})

t.test('overhead is neither the wait for a body nor that for a provider', { timeout: 60_000 }, async (t) => {
  const node = await startMeteredNode(t)
  const client = await RawClient.connect(node.port)
  t.teardown(() => client.destroy())
  const body = JSON.stringify({ input: 'hello' })
  const authorization = node.authorizations.slow
  await client.send(
    `POST /v1/speech HTTP/1.1\r\nHost: a\r\nAuthorization: ${authorization}\r\n` +
      `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body.slice(0, 5)}`,
  )
  await sleep(SLOW_MS)
  await client.send(body.slice(5))
  t.equal((await client.response({ timeoutMs: 30_000 }))?.status, 200)

  const { value } = await node.scrape()
  const seconds = (name: string) => value(`${name}_sum`, { route: '/v1/speech' }) ?? Number.NaN
  const took = seconds('larkway_request_duration_seconds')
  const overhead = seconds('larkway_request_overhead_seconds')
  t.ok(took > 2.9, `it took ${took} s`)
  t.ok(overhead > 0 && overhead < 1, `of which ${overhead} s are ours`)
  t.ok((value('gen_ai_client_operation_duration_seconds_sum') ?? 0) > 1.4)
})

t.test('overhead is not the wait for a film that is handed over', { timeout: 60_000 }, async (t) => {
  const upstream = await startUpstream(t)
  upstream.behave('film', { chunkMs: SLOW_MS })
  const gateway = await startRouteGateway(t, {
    providers: { films: { kind: 'openai-compatible', base_url: upstream.url } },
    entries: [{ provider: 'films', model: 'film', capabilities: ['video_generation'] }],
    env: { LARKWAY_METRICS_PORT: '0' },
  })
  const answer = await gateway.post('/v1/video', { prompt: 'a lark' })
  await answer.arrayBuffer()
  t.equal(answer.status, 200)
  const { value } = await scrape(Number(gateway.log.find(({ msg }) => msg === 'listening')?.metrics_port))
  const seconds = (name: string) => value(`${name}_sum`, { route: '/v1/video' }) ?? Number.NaN
  t.ok(seconds('larkway_request_duration_seconds') > 1.4)
  const overhead = seconds('larkway_request_overhead_seconds')
  t.ok(overhead > 0 && overhead < 1, `of which ${overhead} s are ours`)
})
