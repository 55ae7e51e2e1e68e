import { ERRORS, GatewayError, toGatewayError } from '../../../contracts/errors.ts'
import { newId } from '../../../contracts/ids.ts'
import type { SessionEnd } from '../../../contracts/live.ts'
import { bytesPerSecond } from '../../../contracts/live-audio.ts'
import type { Timer } from '../../../contracts/time.ts'
import { authenticateGrant, bearerIn } from '../../call/authentication.ts'
import { keptEndUser } from '../../call/context/end-users.ts'
import type { ClientSocket, ClientSocketListener } from '../../edge/client-socket.ts'
import type { Exchange } from '../../edge/exchange.ts'
import { isObject } from '../../edge/json-body.ts'
import { invalid, invalidField, MUST } from '../../edge/refusals.ts'
import type { LiveRequest } from '../../live/dependencies.ts'
import type { LiveMessage, LiveSink } from '../../live/messages.ts'
import type { LiveSession } from '../../live/session.ts'
import { WholeFrames } from '../../media/pcm.ts'
import { CALL_ERRORS } from '../openapi/operation.ts'
import { keyOffered, type SocketCall, socketEndpoint } from '../socket-endpoint.ts'
import { BEHIND_BYTES, CLOSE, nodeStops, unaskedClose } from '../socket-messages.ts'
import { type ClientSecret, looksLikeSecret, openSecret } from './client-secrets.ts'
import { OPENAI, secondsNow } from './door.ts'
import type { RealtimeConfig } from './realtime-config.ts'
import { configured, DEFAULT_CONFIG, effectiveSession, liveCallOf, realtimeAudio } from './realtime-config.ts'
import { MESSAGE_BYTES_MAX, readClientEvent } from './realtime-event.ts'
import { RealtimeItems, type SendEvent } from './realtime-items.ts'

const PROTOCOL = 'realtime'
/** Browsers can send a key in no other place. */
const KEY_PROTOCOL = 'openai-insecure-api-key.'

export const realtime = socketEndpoint({
  ...OPENAI,
  path: '/openai/v1/realtime',
  id: 'openaiRealtime',
  summary: 'Live transcription over a WebSocket',
  description:
    'With `intent=transcription`: OpenAI’s transcription sessions. In a browser the key, or a client secret, goes ' +
    'with the subprotocols `realtime, openai-insecure-api-key.<secret>`.',
  parameters: [
    'Purpose',
    'Require',
    {
      name: 'intent',
      in: 'query',
      description: 'must be `transcription`; a client secret goes without',
      schema: { type: 'string', enum: ['transcription'] },
    },
  ],
  limits: { maxMessageBytes: MESSAGE_BYTES_MAX },
  errors: [...CALL_ERRORS, 'ROUTE_CONTROL_NOT_ALLOWED'],
  authorization: authorizationIn,
  authenticate(authorization, context, { services, secretKeys }) {
    const sent = bearerIn(authorization)
    if (!looksLikeSecret(sent)) return null
    const secret = openSecret(secretKeys, sent, secondsNow(services.clock))
    const admitted = authenticateGrant(services, context, secret?.keySha256 ?? null)
    // The holder of a secret is an end user, named by whoever made the secret.
    if (secret?.endUser !== undefined)
      context.endUser = keptEndUser(services, admitted.principal, secret.endUser)
    return admitted
  },
  protocol: (offered) => (offered.includes(PROTOCOL) ? PROTOCOL : null),
  open(call) {
    const { secretKeys, services } = call.deps
    const sent = bearerIn(authorizationIn(call.exchange))
    const secret = openSecret(secretKeys, sent, secondsNow(services.clock))
    checkQuery(call.exchange, secret !== null)
    return new RealtimeSocket(call, secret)
  },
  refused: (error) => ({
    onOpen(socket) {
      socket.send(JSON.stringify(errorEvent(error, null)))
      socket.close(closeCode(error), error.code)
    },
    onMessage() {},
    onClose() {},
    onStopping() {},
  }),
})

function authorizationIn({ headers }: Exchange): string | undefined {
  return headers.authorization ?? keyOffered(headers, KEY_PROTOCOL)
}

/** @throws GatewayError INVALID_REQUEST for sessions of another kind */
function checkQuery({ query }: Exchange, hasSecret: boolean): void {
  const given = new URLSearchParams(query)
  const intent = given.get('intent')
  if (intent === 'transcription') return
  for (const name of ['model', 'call_id'])
    if (given.has(name))
      throw invalidField(name, MUST.beLeftOut('speech to speech is not served; send intent=transcription'))
  if (intent !== null || !hasSecret) throw invalidField('intent', MUST.beOneOf(['transcription']))
}

/** One caller's WebSocket in OpenAI's events. */
class RealtimeSocket implements ClientSocketListener, LiveSink {
  readonly #call: SocketCall
  readonly #secret: ClientSecret | null
  readonly #id = newId('sess')
  readonly #items: RealtimeItems
  readonly #send: SendEvent
  #config: RealtimeConfig
  #session: LiveSession | null = null
  #socket: ClientSocket | null = null
  #idle: Timer | null = null
  /** Bytes of audio that came, and those of them that were committed or cleared. */
  #received = 0
  #committed = 0
  #frames = new WholeFrames(realtimeAudio(DEFAULT_CONFIG))
  #events = 0
  #isOver = false

  constructor(call: SocketCall, secret: ClientSecret | null) {
    this.#call = call
    this.#secret = secret
    this.#config = secret?.config ?? DEFAULT_CONFIG
    this.#send = ({ type, ...rest }) => {
      if (this.#isOver) return
      this.#events += 1
      this.#socket?.send(JSON.stringify({ type, event_id: `event_${this.#id}_${this.#events}`, ...rest }))
    }
    this.#items = new RealtimeItems(this.#id, this.#send)
    // A session that could never be opened is refused before the handshake; without a secret the settings come later.
    if (secret !== null) call.deps.live.select(call.context, this.#liveCall(this.#config), secret)
  }

  onOpen(socket: ClientSocket): void {
    this.#socket = socket
    this.#send({ type: 'session.created', session: effectiveSession(this.#id, this.#config) })
    this.#call.admitted?.catch((thrown) => this.end(toGatewayError(thrown)))
    const { clock, snapshot } = this.#call.deps.services
    const { live_idle_seconds: seconds } = snapshot().limits
    const idle = () => this.end(new GatewayError('REQUEST_TIMEOUT', `no audio came for ${seconds} s`))
    this.#idle = clock.after(seconds * 1000, idle)
  }

  onMessage(message: Uint8Array, isBinary: boolean): void {
    if (this.#isOver) return
    let givenId: unknown = null
    try {
      if (isBinary) throw invalid('a message must be text; audio is base64 in `input_audio_buffer.append`')
      const { event, audio } = readClientEvent(message)
      givenId = event.event_id
      this.#handleEvent(event, audio)
    } catch (thrown) {
      // Most faults of a message leave the session as it is.
      const { type, error } = errorEvent(toGatewayError(thrown), typeof givenId === 'string' ? givenId : null)
      this.#send({ type, error })
    }
  }

  onClose(code: number): void {
    const wasOver = this.#isOver
    this.#isOver = true
    this.#stopWaiting()
    if (wasOver || this.#session === null) return
    // The protocol has no message for the end: clients close when they have all they want.
    if (code === CLOSE.normal || code === CLOSE.goingAway || code === CLOSE.noCode) this.#session.hangUp()
    else this.#session.leave()
  }

  onStopping(): void {
    const error = nodeStops()
    if (this.#session === null) this.end(error)
    else this.#session.fail(error)
  }

  send(message: LiveMessage): void {
    const isAuto = this.#config.silenceMs !== null
    switch (message.type) {
      case 'partial':
        if ((this.#socket?.bufferedBytes ?? 0) <= BEHIND_BYTES)
          this.#items.partial(message.text, message.start, isAuto)
        return
      case 'final':
        return void this.#items.final(message.segment, isAuto)
      case 'finalized':
        return void this.#items.finalized()
      case 'speech_started':
        if (isAuto) this.#items.speechStarted(message.at_seconds)
        return
      case 'utterance_end':
        if (isAuto) this.#items.utteranceEnd(message.at_seconds)
        return
      case 'going_away':
        return void this.#send({ ...message, type: 'larkway.going_away' })
      case 'switched':
        // Not OpenAI's: its libraries hand on events that they do not know, and do nothing with them.
        return void this.#send({ ...message, type: 'larkway.switched' })
      default:
        return
    }
  }

  end(error: GatewayError | null): void {
    if (this.#isOver) return
    this.#stopWaiting()
    if (error !== null) this.#call.context.failure ??= error
    const end = this.#session?.facts().ended ?? null
    const fault = error ?? sessionError(end)
    const { type, error: errorFields } = errorEvent(fault, null)
    const { code, message } = errorFields
    this.#items.failed({ type: errorFields.type, code, message, param: null })
    this.#send({ type, error: error === null ? { ...errorFields, code: 'session_expired' } : errorFields })
    this.#isOver = true
    this.#socket?.close(error === null ? unaskedClose(end)[0] : closeCode(fault), fault.code)
  }

  #handleEvent(event: Record<string, unknown>, audio: Buffer | null): void {
    switch (event.type) {
      case 'session.update':
        return void this.#update(event.session)
      case 'input_audio_buffer.append':
        if (audio === null) throw invalidField('audio', MUST.beGiven)
        return void this.#append(audio)
      case 'input_audio_buffer.commit':
        return void this.#commit()
      case 'input_audio_buffer.clear':
        return void this.#clear()
      default:
        throw invalidField('type', MUST.beOneOf(CLIENT_EVENTS))
    }
  }

  #update(sent: unknown): void {
    const config = configured(this.#config, isObject(sent) ? sent : null)
    const isOther = JSON.stringify(config) !== JSON.stringify(this.#config)
    if (isOther && this.#session !== null)
      throw invalid('settings cannot be changed once audio has come; open another session', 'session')
    const { context, deps } = this.#call
    if (isOther) deps.live.select(context, this.#liveCall(config), this.#secret ?? undefined)
    this.#config = config
    this.#send({ type: 'session.updated', session: effectiveSession(this.#id, config) })
  }

  #append(audio: Buffer): void {
    try {
      this.#session ??= this.#open()
    } catch (thrown) {
      // Otherwise every piece of audio that follows would be refused by itself.
      return void this.end(toGatewayError(thrown))
    }
    const whole = this.#frames.take(audio)
    this.#received += whole.length
    if (whole.length > 0) this.#session.audio(whole)
  }

  #commit(): void {
    if (this.#received === this.#committed)
      throw invalid('the input audio buffer is empty: nothing was appended since the last commit')
    this.#committed = this.#received
    this.#items.commit(this.#receivedSeconds)
    this.#session?.finalize(null)
  }

  #clear(): void {
    this.#frames.clear()
    if (this.#received > this.#committed) {
      this.#committed = this.#received
      this.#items.clear(this.#receivedSeconds)
      this.#session?.finalize(null)
    }
    this.#send({ type: 'input_audio_buffer.cleared' })
  }

  get #receivedSeconds(): number {
    return this.#received / bytesPerSecond(realtimeAudio(this.#config))
  }

  /** @throws GatewayError as `LiveSessions.select` */
  #open(): LiveSession {
    const { context, deps, admitted } = this.#call
    const call = this.#liveCall(this.#config)
    const grant = this.#secret ?? undefined
    const selection = deps.live.select(context, call, grant)
    this.#frames = new WholeFrames(realtimeAudio(this.#config))
    const session = deps.live.open({ context, call, selection, sink: this, admitted, grant })
    this.#stopWaiting()
    void session.start()
    return session
  }

  #liveCall(config: RealtimeConfig): LiveRequest['call'] {
    const call = liveCallOf(this.#call.exchange, this.#call.context.principal, config)
    return this.#secret === null ? call : { ...call, selectors: this.#secret.selectors }
  }

  #stopWaiting(): void {
    this.#idle?.close()
    this.#idle = null
  }
}

const CLIENT_EVENTS = [
  'session.update',
  'input_audio_buffer.append',
  'input_audio_buffer.commit',
  'input_audio_buffer.clear',
]

/** The error that a session ends with which was not asked to end. */
function sessionError(end: SessionEnd | null): GatewayError {
  const code = end === 'drain' ? 'OVERLOADED' : end === 'operator' ? 'PERMISSION_DENIED' : 'AUDIO_TOO_LONG'
  return new GatewayError(code, unaskedClose(end)[1])
}

function errorEvent(error: GatewayError, eventId: string | null) {
  const { code, message, extra } = error
  const type = ERRORS[code].status < 500 ? 'invalid_request_error' : 'server_error'
  return { type: 'error', error: { type, code, message, param: extra.param ?? null, event_id: eventId } }
}

/** Codes with which OpenAI's libraries see that it makes no sense to come again, or that it does. */
function closeCode({ code }: GatewayError): number {
  if (code === 'OVERLOADED') return CLOSE.goingAway
  return ERRORS[code].status < 500 ? CLOSE.policy : CLOSE.serverError
}
