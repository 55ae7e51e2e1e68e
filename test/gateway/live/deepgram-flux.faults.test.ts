import t from 'tap'
import { framesOf, liveAudio, silence } from '../../support/live-audio.ts'
import { LiveClient, refusedHandshake } from '../../support/live-client.ts'
import { flux } from '../../support/live-deepgram-flux.ts'
import { judge, ROWS } from '../../support/live-judged.ts'
import { serveVendor } from '../../support/live-vendor.ts'

const JUDGED = { kind: 'deepgram', model: 'flux-general-en', apiKey: 'secret', hasTimes: true }
const PER_HOUR_USD = 0.39

t.test('Flux: every word once and in time, whatever it dies of, and in a pause', async (t) => {
  const pause = { name: 'a pause', faults: '', switches: 0, pauseMs: 8_000 }
  // Its patience may be 10 s; the pause would have to be as much longer.
  const rows = await judge(t, { ...JUDGED, vendor: flux('secret', { idleSeconds: 6 }) }, [...ROWS, pause])
  const { audio_seconds: heard, billable_audio_seconds: billed } = rows.get('sound')!.done.usage
  t.equal(billed, heard)
  const { cost_usd: cost } = rows.get('sound')!.done
  t.ok(Math.abs(cost - (billed / 3600) * PER_HOUR_USD) < 0.000_002, `${cost} USD`)
})

t.test('the strict server tells turns, and refuses what the vendor refuses', async (t) => {
  const { origin } = await serveVendor(t, flux('secret'))
  const headers = { authorization: 'Token secret' }
  const at = (query: string) => `${origin.replace('http', 'ws')}/v2/listen?${query}`
  const RAW = 'model=flux-general-en&encoding=linear16&sample_rate=16000'
  for (const query of [
    'model=nova-3&encoding=linear16&sample_rate=16000',
    'model=flux-general-en&sample_rate=16000',
    'model=flux-general-en&encoding=linear16',
    `${RAW}&sample_rate=22050`,
    `${RAW}&interim_results=true`,
    `${RAW}&redact=pii`,
    `${RAW}&eot_threshold=0.2`,
    `${RAW}&eot_timeout_ms=100`,
    `${RAW}&eager_eot_threshold=0.8`,
    `${RAW}&language_hint=en`,
  ])
    t.match(await refusedHandshake(at(query), [], { headers }), { status: 400 }, query)
  t.match(await refusedHandshake(at(RAW)), { status: 401 })

  const client = await new LiveClient(at(`${RAW}&eager_eot_threshold=0.4`), [], { headers }).open()
  await client.until('Connected')
  client.send({ type: 'Configure', thresholds: { eot_timeout_ms: 1 } })
  await client.until('ConfigureFailure')
  client.send({ type: 'Configure', thresholds: { eot_timeout_ms: 2000 }, keyterms: ['lark'] })
  await client.until('ConfigureSuccess')
  client.send({ type: 'ForceEndTurn' })
  const { pcm } = liveAudio('it is me', { speed: 2 })
  const audio = { pcm: Buffer.concat([pcm, silence(1.5)]), sampleRate: 16_000, seconds: 0, words: [] }
  for (const frame of framesOf(audio, 100)) client.send(frame)
  client.send({ type: 'CloseStream' })
  await client.ended
  const events = client.ofType('TurnInfo').map(({ event }) => String(event))
  t.same(
    events.filter((event) => event !== 'Update'),
    ['StartOfTurn', 'EagerEndOfTurn', 'EndOfTurn'],
  )
  t.match(
    client.ofType('TurnInfo').find(({ event }) => event === 'EndOfTurn'),
    { transcript: /^it is me$/i, trigger: 'model', turn_index: 0 },
  )
  for (const message of [{ type: 'KeepAlive' }, { type: 'Finalize' }, Buffer.alloc(0)]) {
    const one = await new LiveClient(at(RAW), [], { headers }).open()
    one.send(message)
    t.match(await one.until('Error'), { code: 'UNPARSABLE_CLIENT_MESSAGE' })
    t.match(await one.ended, { code: 1008 })
  }
})
