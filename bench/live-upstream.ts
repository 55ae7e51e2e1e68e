import { answerTasks } from './load/task.ts'
import { loadUws } from './load/uws.ts'
import type { UpstreamReport } from './upstream.ts'

// A provider that transcribes live, by Deepgram's protocol: every 200 ms of audio it says how far it has heard, and
// every second that is final. Its text is the milliseconds, so that whoever hears it knows how old it is.
// usage: node bench/live-upstream.ts PORT

const port = Number(process.argv[2])
const BYTES_PER_MS = 32
const INTERIM_MS = 200
const FINAL_MS = 1_000

interface Session {
  bytes: number
  /** Milliseconds that were answered, and those that are final. */
  answeredMs: number
  finalMs: number
}

let messages = 0
let bytes = 0

loadUws()
  .App()
  .ws<Session>('/v1/listen', {
    maxPayloadLength: 1024 * 1024,
    idleTimeout: 0,
    upgrade(response, request, context) {
      const [key, extensions] = [
        request.getHeader('sec-websocket-key'),
        request.getHeader('sec-websocket-extensions'),
      ]
      response.upgrade<Session>({ bytes: 0, answeredMs: 0, finalMs: 0 }, key, '', extensions, context)
    },
    message(ws, message, isBinary) {
      messages += 1
      const session = ws.getUserData()
      if (!isBinary) {
        if (Buffer.from(message).includes('CloseStream')) ws.end(1000)
        return
      }
      bytes += message.byteLength
      session.bytes += message.byteLength
      const heardMs = session.bytes / BYTES_PER_MS
      while (session.answeredMs + INTERIM_MS <= heardMs) {
        session.answeredMs += INTERIM_MS
        const isFinal = session.answeredMs % FINAL_MS === 0
        ws.send(results(session, isFinal))
        if (isFinal) session.finalMs = session.answeredMs
      }
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

function results({ answeredMs, finalMs }: Session, isFinal: boolean): string {
  const text = `t${answeredMs}`
  const [start, end] = [finalMs / 1000, answeredMs / 1000]
  const word = { word: text, punctuated_word: text, start, end, confidence: 1 }
  const alternatives = [{ transcript: text, confidence: 1, words: [word] }]
  return JSON.stringify({
    ...{ type: 'Results', channel_index: [0, 1], start, duration: end - start },
    ...{ is_final: isFinal, speech_final: isFinal, channel: { alternatives } },
  })
}
