import type { TSchema } from 'typebox'
import type { Capability, Feature, Hint, LiveCall, Redaction, SpeechCall } from './calls.ts'
import type { ExtraOption } from './extras.ts'
import type { LiveFacts, ModelLimits, Price } from './facts.ts'
import type { LiveHandshake, LiveStepper, SocketHandshake, SpeechStepper } from './live.ts'
import type { Calls, Deltas, OperationName, Results } from './operations.ts'
import type { Residency } from './requirements.ts'
import type { Failure, UpstreamReply, UpstreamRequest, UpstreamStream } from './upstream.ts'

/**
 * Placeholder for the address of the sandbox that every node has in itself: its port is another at each start, and the
 * name is one that no resolver knows.
 */
export const BUILT_IN_SANDBOX = 'http://sandbox.larkway.invalid/v1'

/** Where and as whom an attempt goes. */
export interface Target {
  readonly model: string
  /** Without a trailing slash, e.g. `https://api.openai.com/v1`. */
  readonly baseUrl: string
  /** The provider's key; null for providers that take none. */
  readonly credential: string | null
  /** The route entry's `options`, checked against the provider's own schema when the file was read. */
  readonly options: Readonly<Record<string, unknown>>
  /**
   * The same for whoever takes this attempt of a job over, and for no other attempt: for protocols that do once what is
   * sent again under the same key. Absent: this is not sent again.
   */
  readonly attemptKey?: string
  /**
   * Opens the audio of the call to whoever has it, until the attempt's deadline: for operations that take a URL, which
   * send it instead of the bytes. Never logged.
   */
  readonly audioUrl?: string
  /**
   * Promises of the entry about the content: a protocol that has to ask its provider for that does so with every
   * request that brings content. Absent: none is known.
   */
  readonly promises?: Pick<Residency, 'retention' | 'training'>
}

/** Next step of an operation. `state` is plain JSON, so that a job can persist it and continue on another node. */
export type Step<Result> =
  | {
      readonly kind: 'send'
      readonly request: UpstreamRequest
      readonly state: unknown
      /** How it ends when this request gets no answer: for one that only tidies up. Absent: the attempt has failed. */
      readonly otherwise?: Ending<Result>
    }
  | {
      readonly kind: 'wait'
      readonly waitMs: number
      /** Sent after the wait. */
      readonly request: UpstreamRequest
      readonly state: unknown
    }
  | Ending<Result>

/** Why an operation cannot send a call to a target's model without losing what the caller asks for. */
export type Unsupported = {
  /** The same in words. */
  readonly reason: string
} & (
  | {
      readonly why: 'features'
      /** Required features that it has no place for beside the others of the call. */
      readonly missing: readonly Feature[]
      /** Required features that it has and does not keep together. */
      readonly conflict: readonly Feature[]
      /** Kinds that it cannot redact, where it redacts others; `redaction` is then missing. */
      readonly redactions: readonly Redaction[]
      /** The language in which features are missing; null when they are in every one. */
      readonly language: string | null
    }
  | { readonly why: 'field'; readonly param: string }
  | { readonly why: 'operation' }
)

/** Where something about a provider is documented, and the day on which that was read. */
export interface DatedSource {
  readonly source: string
  /** As `2026-11-21`. */
  readonly asOf: string
}

/** How an operation ends. */
export type Ending<Result> =
  | { readonly kind: 'done'; readonly result: Result }
  | { readonly kind: 'failed'; readonly failure: Failure }

/**
 * One thing that a provider does, as a pure stepper: no client, no clock, no environment, no retries.
 * The gateway sends what `start` asks for and hands each answer to `next`, until `done` or `failed`. A GET that got no
 * answer is sent again by the gateway, any other request never.
 */
export interface Operation<Call, Result, Delta = never> {
  /**
   * Names what this target's model cannot take of a call; absent: nothing is known. Selection asks it before an entry
   * is taken and `start` fails by it, so that the two cannot disagree about what an entry keeps.
   */
  unsupported?(call: Call, target: Target): Unsupported | null
  /**
   * True where it sends an option of OpenAI's format to this target's model; absent: none. Options that it does not
   * send are taken out of the call before, or the entry is not asked.
   */
  takesExtra?(extra: ExtraOption, target: Target): boolean
  start(call: Call, target: Target): Step<Result>
  next(state: unknown, reply: UpstreamReply, call: Call, target: Target): Step<Result>
  /** The provider fetches audio itself where the target has an `audioUrl`. */
  readonly takesAudioUrl?: boolean
  /**
   * The audio is in the body of the one request that is made, and the provider executes and bills that only once it is
   * whole: one that breaks off costs nothing. Absent: this is not known.
   */
  readonly billsWholeBody?: DatedSource
  /**
   * The provider's interface takes a seed for this, and it was sent when the call had one; except to this very model,
   * when a warning of the result begins with `seed:`.
   */
  readonly takesSeed?: boolean
  /** It keeps the times of characters that a call asks for; absent: an answer of it has none. */
  readonly tellsTimes?: true
  /**
   * The first request orders something that costs money and takes long, so that it must never be made twice: once it
   * may have arrived, no other entry is tried.
   */
  readonly createsOnce?: boolean
  /**
   * Continues from a `state` that a step of kind `wait` was given by this operation, maybe in another process and under
   * a newer version: the next look at what the provider works on. Null: that state cannot be gone on from, and the call
   * has to be made anew. Absent: what this operation begins cannot be taken over.
   */
  resume?(state: unknown, target: Target): Step<Result> | null
  /** Request that stops the provider once the answer is no longer awaited; null when there is none. */
  abandon?(state: unknown, target: Target): UpstreamRequest | null
  readonly streamed?: StreamedOperation<Call, Result, Delta>
}

/** The same, with the answer piece by piece as it comes. */
export interface StreamedOperation<Call, Result, Delta> {
  /**
   * True where this call can be streamed by this target's model; absent: always. Where it cannot, the call is made
   * whole, and its answer is the one piece of the stream.
   */
  applies?(call: Call, target: Target): boolean
  start(call: Call, target: Target): Step<Result> & { readonly kind: 'send' | 'failed' }
  /** Translates an answer other than 2xx, read whole. */
  refused(reply: UpstreamReply): Failure
  /** A reader for an answer of 2xx. */
  read(
    head: Pick<UpstreamStream, 'status' | 'headers'>,
    call: Call,
    target: Target,
  ): StreamReader<Result, Delta>
}

/** Turns the bytes of a streamed answer into its pieces. Keeps what it needs to know; used for one answer only. */
export interface StreamReader<Result, Delta> {
  /** The pieces that `chunk` completes, or what went wrong. */
  push(chunk: Uint8Array): readonly Delta[] | Failure
  /** The body has ended: the whole result, or what is wrong with it (cut short, for one). */
  end(): { readonly result: Result } | Failure
}

/** Live transcription of a provider: pure, like every operation. */
export interface LiveTranscription {
  /** As in `Operation`. */
  unsupported?(call: LiveCall, target: Target): Unsupported | null
  handshake(call: LiveCall, target: Target): LiveHandshake
  /** Translates an answer to the handshake other than 101. */
  refused(reply: UpstreamReply): Failure
  connect(call: LiveCall, target: Target): LiveStepper
  /** It takes audio as soon as the socket is open, without saying so: `opened` replaces the event `ready`. */
  readonly readyWhenOpen?: true
  /** Longest silence on the wire before a `keepAlive` is due, ms; absent: none is needed. */
  readonly keepAliveMs?: number
  /** True: the provider itself says where a turn begins and ends; absent: it does not. */
  tellsTurns?(model: string): boolean
  /** In which time the provider says something whenever it hears sound, ms; absent: it need not. */
  readonly answersWithinMs?: number
}

/** Speech of a provider over a WebSocket that several sentences share: pure, like every operation. */
export interface LiveSpeech {
  /** As in `Operation`: why a call cannot be spoken so. It is then sent as a request. */
  unsupported(call: SpeechCall, target: Target): Unsupported | null
  handshake(call: SpeechCall, target: Target): SocketHandshake
  /** Translates an answer to the handshake other than 101. */
  refused(reply: UpstreamReply): Failure
  connect(call: SpeechCall): SpeechStepper
  /** Form of the audio of a call. */
  mediaType(call: SpeechCall): string
  /** A connection without text for so long is closed by the provider, ms. */
  readonly idleMs: number
  /** Sentences that may be under way at once. */
  readonly sentencesMax: number
}

type OperationOf<K extends OperationName> = Operation<Calls[K], Results[K], DeltaOf<K>>

/** An upstream protocol. What it cannot do is an absent property; selection reads capability from the value. */
export interface Provider {
  /** As the configuration names it. */
  readonly kind: string
  /** Null: the configuration must give a `base_url`. */
  readonly baseUrl: string | null
  readonly needsCredential: boolean
  /** Schema of a route entry's `options`; absent when the protocol takes none. */
  readonly optionsSchema?: TSchema
  readonly transcription?: OperationOf<'transcription'>
  /** Transcription of audio that is still coming. */
  readonly live?: LiveTranscription
  readonly translation?: OperationOf<'translation'>
  readonly speech?: OperationOf<'speech'>
  /** Speech of live sessions; absent: each sentence is a request of its own. */
  readonly liveSpeech?: LiveSpeech
  /** Also serves vision. */
  readonly chat?: OperationOf<'chat'>
  readonly complete?: OperationOf<'complete'>
  readonly embeddings?: OperationOf<'embeddings'>
  readonly image?: OperationOf<'image'>
  readonly video?: OperationOf<'video'>
  /**
   * Lists the models that the credential sees; where the protocol has no list, some harmless request that needs the
   * credential, with an empty result.
   */
  readonly models?: Operation<null, readonly string[]>
}

/** Delta of a streamed answer; never for operations that are not streamed. */
type DeltaOf<K extends OperationName> = K extends keyof Deltas ? Deltas[K] : never

/** A provider's operation by name; undefined where the provider lacks it. */
export function operationOf<K extends OperationName>(
  provider: Provider | undefined,
  name: K,
): OperationOf<K> | undefined {
  // Vision is a chat with pictures, in every protocol.
  const property: Exclude<OperationName, 'vision'> = name === 'vision' ? 'chat' : name
  return provider?.[property] as unknown as OperationOf<K> | undefined
}

/** True where a model is for an operation and its protocol has such, whatever it is capable of. */
export function isFor(
  { operations, translates }: ModelFacts,
  provider: Provider | undefined,
  name: OperationName,
): boolean {
  if (operations?.includes(name) === false || (name === 'translation' && !translates)) return false
  return operationOf(provider, name) !== undefined
}

/** Dated facts of one model: what it can do, within which limits, at what price. */
export interface ModelFacts extends Residency {
  readonly capabilities: readonly Capability[]
  /**
   * The operations that it is for; absent: all that its capabilities allow. A chat model that can speak has the
   * capability `audio_output`, and is still no model for text to speech. One that takes nothing but live audio is for
   * none of them.
   */
  readonly operations?: readonly OperationName[]
  readonly features: readonly Feature[]
  /** Features that it keeps when it translates; absent: the same as `features`. */
  readonly translation_features?: readonly Feature[]
  readonly hints: readonly Hint[]
  /** Sets that cannot go together: among features the call is refused, a hint gives way to a feature. */
  readonly conflicts?: readonly (readonly (Feature | Hint)[])[]
  /** Features and hints that work in these languages only (ISO 639-1). A call whose language is not known passes. */
  readonly languages?: Readonly<Partial<Record<Feature | Hint, readonly string[]>>>
  readonly limits: ModelLimits
  /** Null: unknown. */
  readonly price: Price | null
  /** True when the provider translates with this model; transcription follows from `audio_input`. */
  readonly translates: boolean
  /** Facts that differ when it transcribes live audio; absent: it does not. */
  readonly live?: LiveFacts
}
