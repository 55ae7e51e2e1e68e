import type { Word } from '../../../contracts/calls.ts'
import type { Principal } from '../../../contracts/catalog.ts'
import type { GatewayError } from '../../../contracts/errors.ts'
import type { Exchange } from '../../edge/exchange.ts'
import { queryValues } from '../../edge/form.ts'
import { invalidField, MUST } from '../../edge/refusals.ts'
import type { LiveMessage } from '../../live/messages.ts'
import { seconds } from '../../live/transcript.ts'
import { SEVERAL_LANGUAGES } from '../../providers/language.ts'
import { type DoorOptions, doorSelectors, fixed, formOf, OptionReader, refused } from '../door-options.ts'
import { readLiveCall } from '../native/live-call.ts'
import { CALL_ERRORS } from '../openapi/operation.ts'
import { socketEndpoint } from '../socket-endpoint.ts'
import { BEHIND_BYTES } from '../socket-messages.ts'
import { DEEPGRAM_SOCKET } from './door.ts'
import { ListeningSocket } from './live-socket.ts'
import type { AskedSession } from './options.ts'
import { formatIn, OPT_OUT } from './options.ts'
import { UNKNOWN_CONFIDENCE } from './words.ts'

export const listenTurns = socketEndpoint({
  ...DEEPGRAM_SOCKET,
  path: '/deepgram/v2/listen',
  id: 'deepgramListenTurns',
  summary: 'Live transcription in turns over a WebSocket',
  description:
    'Deepgram’s streaming protocol v2, that of Flux, with its options as query parameters. Entries that do not tell ' +
    'turns are not asked.',
  parameters: ['Purpose', 'Require'],
  errors: [...CALL_ERRORS, 'ROUTE_CONTROL_NOT_ALLOWED'],
  open: (call) => new TurnsSocket(call, readTurnsOptions(call.exchange, call.context.principal)),
})

const OPTIONS: DoorOptions = {
  tag: fixed('no effect'),
  eager_eot_threshold: refused('no end of a turn is told before it is certain'),
}
/** Longest silence that ends a turn, ms. Deepgram takes up to a minute, and sessions 5 s. */
const TIMEOUT_MS = { least: 500, most: 5000 } as const

/** @throws GatewayError INVALID_REQUEST naming the option, and as `readLiveCall` */
function readTurnsOptions(exchange: Exchange, principal: Principal): AskedSession {
  const query = new OptionReader(queryValues(exchange.query), OPTIONS)
  const model = query.text('model') ?? ''
  const hints = query.list('language_hint')
  const isMultilingual = model === 'flux-general-multi'
  if (hints.length > 0 && !isMultilingual)
    throw invalidField('language_hint', MUST.beLeftOut('`model` is not `flux-general-multi`'))
  const detects = isMultilingual && hints.length !== 1
  const timeout = query.number('eot_timeout_ms')
  const { least, most } = TIMEOUT_MS
  if (timeout !== null && !(timeout >= least && timeout <= most))
    throw invalidField('eot_timeout_ms', `must be from ${least} to ${most}`)
  const threshold = query.number('eot_threshold')
  if (threshold !== null && !(threshold >= 0.5 && threshold <= 1))
    throw invalidField('eot_threshold', 'must be from 0.5 to 1')
  if (query.list('redact').some((kind) => kind !== 'numbers'))
    throw invalidField('redact', MUST.beOneOf(['numbers']))
  const fields = formOf({
    ...formatIn(query),
    language: detects ? SEVERAL_LANGUAGES : (hints[0] ?? 'en'),
    detect_language: detects,
    smart_formatting: query.flag('numerals') ?? false,
    profanity_filter: query.flag('profanity_filter') ?? false,
    redaction: query.list('redact'),
    keyterms: query.list('keyterm'),
    endpointing_ms: timeout,
    commit: threshold === 1 ? 'manual' : 'auto',
  })
  const unkept = OPT_OUT.in(query)
  const vague =
    threshold === null || threshold === 1 ? [] : ['eot_threshold: how sure it has to be, the entry decides']
  const warnings = [...query.settle('live transcription in turns here has no such option'), ...vague]
  const { selectors, ...call } = readLiveCall(exchange, fields)
  const live = { ...call.payload.live, turns: true as const }
  return {
    call: {
      ...call,
      payload: { ...call.payload, live },
      selectors: doorSelectors(selectors, principal, model, unkept),
    },
    ...{ live, warnings },
  }
}

const CONTROLS = ['CloseStream', 'Configure', 'ForceEndTurn']

/** A word, with its times where the entry has told them. */
type FinalWord = Pick<Word, 'word'> & Partial<Word>

/** One caller's WebSocket in the messages of version 2. */
class TurnsSocket extends ListeningSocket {
  #sequence = 0
  #turn = 0
  /** Where the turn under way began, seconds; null: none is. */
  #from: number | null = null
  /** Texts of the turn that are final, and what follows them. */
  #texts: string[] = []
  #words: FinalWord[] = []
  #partial = ''
  /** Calls of `ForceEndTurn` without an answer. */
  #forcing = 0

  send(message: LiveMessage): void {
    switch (message.type) {
      case 'ready':
        return void this.#tell({ type: 'Connected' })
      case 'speech_started':
        return void this.#begin(message.at_seconds)
      case 'partial':
        this.#partial = message.text
        if (message.text !== '') this.#heard(message.start)
        return
      case 'final':
        this.#partial = ''
        this.#texts.push(message.segment.text.trim())
        for (const word of message.words ?? wordsIn(message.segment.text)) this.#words.push(word)
        return void this.#heard(message.segment.start, true)
      case 'utterance_end':
        return void this.#end(message.at_seconds, this.#forcing > 0 ? 'manual' : 'model')
      case 'finalized':
        this.#forcing = Math.max(0, this.#forcing - 1)
        return void this.#end(message.settled_seconds, 'manual')
      default:
        return
    }
  }

  protected override last(error: GatewayError | null): void {
    if (error !== null) this.#tell({ type: 'Error', code: error.code, description: error.message })
  }

  protected control({ type }: Readonly<Record<string, unknown>>): void {
    switch (type) {
      case 'CloseStream':
        return void this.finish()
      case 'ForceEndTurn':
        // Without a turn it is ignored, as at Deepgram.
        if (this.#from !== null) this.#forcing += 1
        return void this.session.finalize(null)
      case 'Configure':
        // A session stays as it was opened.
        return void this.#tell({ type: 'ConfigureFailure' })
      default:
        throw invalidField('type', MUST.beOneOf(CONTROLS))
    }
  }

  /** A turn begins, unless it has. @returns whether it did */
  #begin(at: number): boolean {
    if (this.#from !== null) return false
    this.#from = at
    this.#info('StartOfTurn', seconds(this.session.audioSeconds))
    return true
  }

  #heard(start: number, isFinal = false): void {
    if (this.#begin(start) || (!isFinal && this.bufferedBytes > BEHIND_BYTES)) return
    this.#info('Update', seconds(this.session.audioSeconds))
  }

  #end(until: number, trigger: string): void {
    if (this.#from === null || this.#texts.length === 0) return
    this.#partial = ''
    this.#info('EndOfTurn', until, { trigger })
    this.#from = null
    this.#texts = []
    this.#words = []
    this.#turn += 1
  }

  #info(event: string, until: number, more: object = {}): void {
    const from = this.#from ?? until
    this.#tell({
      ...{ type: 'TurnInfo', event, turn_index: this.#turn },
      ...{ audio_window_start: from, audio_window_end: Math.max(from, until) },
      transcript: [...this.#texts, this.#partial.trim()].filter((text) => text !== '').join(' '),
      words: [...this.#words, ...wordsIn(this.#partial)].map(({ word, confidence, ...times }) => ({
        ...{ word, confidence: confidence ?? UNKNOWN_CONFIDENCE },
        ...('start' in times ? { start: times.start, end: times.end } : {}),
      })),
      // How sure an entry is, sessions do not tell.
      end_of_turn_confidence: event === 'EndOfTurn' ? 1 : 0,
      ...more,
    })
  }

  #tell(message: object): void {
    this.say({ ...message, request_id: this.requestId, sequence_id: this.#sequence })
    this.#sequence += 1
  }
}

/** Words without times. */
function wordsIn(text: string): FinalWord[] {
  return text.split(' ').flatMap((word) => (word === '' ? [] : [{ word }]))
}
