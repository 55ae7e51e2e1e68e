import { answerTasks } from './load/task.ts'
import { loadUws } from './load/uws.ts'
import type { UpstreamReport } from './upstream.ts'

// A provider that transcribes live, by Deepgram's protocol and by OpenAI's: every 200 ms of audio it says how far it
// has heard, and every second that is final. Its text is the milliseconds: whoever hears it knows how old it is.
// usage: node bench/live-upstream.ts PORT

const port = Number(process.argv[2])
/** 16 kHz at Deepgram's address, 24 kHz at OpenAI's; samples of two bytes. */
const DEEPGRAM_BYTES_PER_MS = 32
const OPENAI_BYTES_PER_MS = 48
const INTERIM_MS = 200
const FINAL_MS = 1_000
const AUDIO_FIELD = '"audio":"'

interface Session {
  bytes: number
  /** Milliseconds that were answered, and those that are final. */
  answeredMs: number
  finalMs: number
}

type Behavior = Parameters<ReturnType<ReturnType<typeof loadUws>['App']>['ws']>[1]

let messages = 0
let bytes = 0

const UPGRADE = {
  maxPayloadLength: 1024 * 1024,
  idleTimeout: 0,
  upgrade(response, request, context) {
    const [key, extensions] = [
      request.getHeader('sec-websocket-key'),
      request.getHeader('sec-websocket-extensions'),
    ]
    response.upgrade<Session>({ bytes: 0, answeredMs: 0, finalMs: 0 }, key, '', extensions, context)
  },
} satisfies Behavior

loadUws()
  .App()
  .ws<Session>('/v1/listen', {
    ...UPGRADE,
    message(ws, message, isBinary) {
      if (isBinary) hear(ws.getUserData(), message.byteLength, DEEPGRAM_BYTES_PER_MS, results, ws)
      else if (Buffer.from(message).includes('CloseStream')) ws.end(1000)
    },
  })
  .ws<Session>('/v1/realtime', {
    ...UPGRADE,
    open: (ws) => void ws.send(told('session.created', { session: SESSION })),
    message(ws, message) {
      const text = Buffer.from(message).toString('latin1')
      const at = text.indexOf(AUDIO_FIELD)
      if (at < 0) {
        if (text.includes('session.update')) ws.send(told('session.updated', { session: SESSION }))
        return
      }
      const base64 = text.slice(at + AUDIO_FIELD.length, text.indexOf('"', at + AUDIO_FIELD.length))
      const padding = base64.endsWith('==') ? 2 : Number(base64.endsWith('='))
      const length = (base64.length / 4) * 3 - padding
      hear(ws.getUserData(), length, OPENAI_BYTES_PER_MS, realtimeEvents, ws)
    },
  })
  .listen('127.0.0.1', port, (socket) => {
    if (!socket) throw new Error(`port ${port} is taken`)
    answerTasks(async (): Promise<UpstreamReport> => {
      const report = { requests: messages, bodyBytes: bytes }
      messages = 0
      bytes = 0
      return report
    })
  })

function hear(
  session: Session,
  count: number,
  bytesPerMs: number,
  say: (session: Session, isFinal: boolean) => readonly string[],
  ws: { send(message: string): unknown },
): void {
  messages += 1
  bytes += count
  session.bytes += count
  const heardMs = session.bytes / bytesPerMs
  while (session.answeredMs + INTERIM_MS <= heardMs) {
    session.answeredMs += INTERIM_MS
    const isFinal = session.answeredMs % FINAL_MS === 0
    for (const message of say(session, isFinal)) ws.send(message)
    if (isFinal) session.finalMs = session.answeredMs
  }
}

function results({ answeredMs, finalMs }: Session, isFinal: boolean): string[] {
  const text = `t${answeredMs}`
  const [start, end] = [finalMs / 1000, answeredMs / 1000]
  const word = { word: text, punctuated_word: text, start, end, confidence: 1 }
  const alternatives = [{ transcript: text, confidence: 1, words: [word] }]
  const message = {
    ...{ type: 'Results', channel_index: [0, 1], start, duration: end - start },
    ...{ is_final: isFinal, speech_final: isFinal, channel: { alternatives } },
  }
  return [JSON.stringify(message)]
}

const SESSION = { type: 'transcription', id: 'sess_bench' }

/** A second is an item, of which each interim text is a delta. */
function realtimeEvents({ answeredMs, finalMs }: Session, isFinal: boolean): string[] {
  const item_id = `item_${finalMs}`
  const started = told('input_audio_buffer.speech_started', { item_id, audio_start_ms: finalMs })
  const isFirst = answeredMs - finalMs === INTERIM_MS
  const delta = told('conversation.item.input_audio_transcription.delta', {
    ...{ item_id, content_index: 0, delta: `${isFirst ? '' : ' '}t${answeredMs}` },
  })
  const interim = isFirst ? [started, delta] : [delta]
  if (!isFinal) return interim
  const previous_item_id = finalMs === 0 ? null : `item_${finalMs - FINAL_MS}`
  const transcript = Array.from(
    { length: FINAL_MS / INTERIM_MS },
    (_, index) => `t${finalMs + (index + 1) * INTERIM_MS}`,
  ).join(' ')
  return [
    ...interim,
    told('input_audio_buffer.speech_stopped', { item_id, audio_end_ms: answeredMs }),
    told('input_audio_buffer.committed', { item_id, previous_item_id }),
    told('conversation.item.input_audio_transcription.completed', { item_id, content_index: 0, transcript }),
  ]
}

function told(type: string, fields: object): string {
  return JSON.stringify({ type, event_id: 'event_bench', ...fields })
}
