import { request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Test, test } from 'tap'
import { type LiveRig, openLive, wordsEntry } from '../../support/live-rig.ts'
import { RATE, serveWords, wordsAudio, wordsText } from '../../support/live-words.ts'
import { wavHead } from '../../support/wav.ts'

type Event = Record<string, unknown> & { readonly type: string }

interface Upload {
  readonly events: Event[]
  readonly status: number
  /** How many events there were when the last byte of the body was sent. */
  readonly before: number
}

/** Sends a body in pieces, each after a pause, and reads the answer meanwhile. */
async function upload(
  rig: LiveRig,
  {
    pieces,
    query = '',
    type = 'audio/wav',
    pauseMs = 0,
  }: {
    readonly pieces: readonly Buffer[]
    readonly query?: string
    readonly type?: string
    readonly pauseMs?: number
  },
): Promise<Upload> {
  const events: Event[] = []
  const sending = request(`${rig.origin}/v1/transcription?mode=realtime&${query}`, {
    method: 'POST',
    headers: { authorization: rig.authorization, 'content-type': type },
  })
  const answered = new Promise<number>((resolve, reject) => {
    sending.on('error', reject)
    sending.on('response', (response) => {
      let text = ''
      response.setEncoding('utf8')
      response.on('data', (chunk) => {
        text += chunk
        const parts = text.split('\n\n')
        text = parts.pop() ?? ''
        for (const part of parts) events.push(JSON.parse(part.replace(/^data: /, '')))
      })
      response.on('end', () => {
        if (text !== '') events.push({ type: 'body', ...JSON.parse(text) })
        resolve(response.statusCode ?? 0)
      })
      response.on('error', reject)
    })
  })
  let before = 0
  for (const piece of pieces) {
    sending.write(piece)
    await sleep(pauseMs)
    before = events.length
  }
  sending.end()
  return { status: await answered, events, before }
}

function wav(samples: Buffer, { codec = 1, bits = 16, rate = RATE } = {}): Buffer {
  return Buffer.concat([wavHead({ sampleRate: rate, codec, bits }), samples])
}

function cut(bytes: Buffer, length: number): Buffer[] {
  return Array.from({ length: Math.ceil(bytes.length / length) }, (_, index) =>
    bytes.subarray(index * length, (index + 1) * length),
  )
}

function textOf({ events }: Upload): string {
  const finals = events.filter(({ type }) => type === 'final')
  return finals.map(({ segment }) => (segment as { text: string }).text).join(' ')
}

async function rigOf(t: Test): Promise<LiveRig> {
  const provider = await serveWords(t)
  return openLive(t, [wordsEntry(provider.origin, 'first')])
}

test('a transcript comes back while the audio is still being uploaded', async (t) => {
  const rig = await rigOf(t)
  const got = await upload(rig, { pieces: cut(wav(wordsAudio(0, 8)), 3_201), pauseMs: 100 })
  t.equal(got.status, 200)
  t.equal(got.events[0]?.type, 'ready')
  t.ok(got.before > 8, `${got.before} events came before the last byte was sent`)
  t.equal(textOf(got), wordsText(8))
  t.match(got.events.at(-1), { type: 'done', content: wordsText(8), duration_seconds: 3.2 })
})

test('a sender that is faster than the provider is held back, and loses nothing', async (t) => {
  const rig = await rigOf(t)
  const type = 'audio/pcm'
  const got = await upload(rig, { pieces: [wordsAudio(0, 30)], query: `sample_rate=${RATE}`, type })
  t.equal(textOf(got), wordsText(30))
  t.equal(rig.live.heldBytes, 0)
})

test('what cannot be transcribed live is refused before the first event', async (t) => {
  const rig = await rigOf(t)
  const audio = wordsAudio(0, 1)
  const refused = async (options: Parameters<typeof upload>[1]) => {
    const { status, events } = await upload(rig, options)
    return [status, (events[0] as { error?: { code: string } })?.error?.code]
  }
  t.same(await refused({ pieces: [wav(audio, { codec: 3, bits: 32 })] }), [400, 'INVALID_REQUEST'])
  t.same(await refused({ pieces: [wav(audio, { rate: 44_101 })] }), [400, 'INVALID_REQUEST'])
  t.same(await refused({ pieces: [wav(audio).subarray(0, 30)] }), [400, 'INVALID_REQUEST'])
  t.same(await refused({ pieces: [wav(audio)], query: 'diarization=true' }), [
    422,
    'REQUIRED_FEATURE_UNAVAILABLE',
  ])
  t.same(await refused({ pieces: [audio], type: 'audio/pcm', query: 'sample_rate=15999' }), [
    400,
    'INVALID_REQUEST',
  ])
  t.same(await refused({ pieces: [audio], type: 'audio/mpeg' }), [415, 'UNSUPPORTED_AUDIO_FORMAT'])
  t.equal(rig.live.count, 0)
})

test('a caller that leaves in the middle ends the session', async (t) => {
  const rig = await rigOf(t)
  const sending = request(`${rig.origin}/v1/transcription?mode=realtime`, {
    method: 'POST',
    headers: { authorization: rig.authorization, 'content-type': 'audio/wav' },
  })
  sending.on('error', () => {})
  const first = new Promise((resolve) => sending.on('response', (response) => response.once('data', resolve)))
  sending.write(wav(wordsAudio(0, 3)))
  await first
  t.equal(rig.live.count, 1)
  sending.destroy()
  while (rig.live.count > 0) await sleep(10)
  t.equal(rig.live.heldBytes, 0)
})
