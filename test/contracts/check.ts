import type { SpeechResult, TranscriptionCall, TranscriptionResult } from '../../src/contracts/calls.ts'
import type { Entry } from '../../src/contracts/catalog.ts'
import type { ChatResult } from '../../src/contracts/chat.ts'
import type { EmbeddingsCall } from '../../src/contracts/generation.ts'
import { OPERATION_NAMES, type OperationName } from '../../src/contracts/operations.ts'
import type { ModelFacts, Operation, Provider, Step } from '../../src/contracts/provider.ts'
import { isFor, operationOf } from '../../src/contracts/provider.ts'
import type { Failure, UpstreamRequest } from '../../src/contracts/upstream.ts'
import type { Call } from '../../src/gateway/call/facts/call.ts'
import { adapt, demandOf, exclusionOf } from '../../src/gateway/call/select/eligibility.ts'

import { factsOf, SHIPPED } from '../../src/gateway/providers/facts.ts'
import { callOf } from '../support/call.ts'
import { configuredProvider, entry, principal } from '../support/catalog.ts'
import { bytesOf } from '../support/form-of.ts'
import { reply } from '../support/replies.ts'
import { spelled, type Variant, variantsOf } from './answers.ts'
import { callsOf, type NamedCall } from './calls.ts'
import { asSchema, type Contract, type ContractOperation, listOf, type Schema } from './contract.ts'
import type { DoorCase } from './doors.ts'
import { judgeRequest, readable } from './requests.ts'
import type { Vendor } from './vendors.ts'

/** A model, and what is known of it. */
export interface Subject {
  readonly kind: string
  readonly provider: Provider
  readonly model: string
  readonly facts: ModelFacts
}

export interface Fault {
  readonly what: string
  readonly count: number
  /** The first of them. */
  readonly where: string
}

export interface Report {
  readonly requests: {
    readonly tried: number
    readonly valid: number
    /** Only values that the caller chose do not fit. */
    readonly byCaller: number
    /** Only what newer documents of the vendor's have does not fit. */
    readonly beyond: number
  }
  /** Calls that an adapter passes on to the next entry before anything is sent. */
  readonly passedOn: number
  readonly answers: { readonly tried: number; readonly right: number }
  readonly faults: readonly Fault[]
}

type AnyOperation = Operation<unknown, unknown, unknown>

/** The models of a vendor's kinds, as the tables have them. */
export function subjectsOf({ kinds }: Vendor, providers: ReadonlyMap<string, Provider>): Subject[] {
  return SHIPPED.all()
    .filter(({ kind }) => kinds.includes(kind))
    .flatMap(({ kind, model }) => {
      const [provider, facts] = [providers.get(kind), factsOf(kind, model)]
      return provider === undefined || facts === undefined ? [] : [{ kind, provider, model, facts }]
    })
}

/** Holds adapters to a contract: what they send in every case, and what they make of every answer that fits. */
export async function checkContract(
  contract: Contract,
  vendor: Vendor,
  subjects: readonly Subject[],
): Promise<Report> {
  const check = new Check(contract, vendor)
  for (const subject of subjects) {
    for (const name of OPERATION_NAMES) {
      const { facts, provider } = subject
      if (name === 'vision' || !isFor(facts, provider, name)) continue
      const operation = operationOf(provider, name) as AnyOperation
      for (const call of callsOf(name, facts)) await check.call(subject, name, operation, call)
    }
    if (subject.provider.models !== undefined)
      await check.models(subject, subject.provider.models as unknown as AnyOperation)
  }
  for (const exchange of (await vendor.door?.(contract)) ?? []) await check.door(exchange)
  return check.report()
}

/** Operations that ask more often than this before they end never do. */
const STEPS_MAX = 8

class Check {
  readonly #contract: Contract
  readonly #vendor: Vendor
  readonly #faults = new Map<string, { count: number; where: string }>()
  readonly #variants = new Map<string, readonly Variant[]>()
  /** Answers that were read, by model family and what was asked for: equal requests are answered once. */
  readonly #answered = new Set<string>()
  #tried = 0
  #valid = 0
  #byCaller = 0
  #beyond = 0
  #passedOn = 0
  #answers = 0
  #right = 0

  constructor(contract: Contract, vendor: Vendor) {
    this.#contract = contract
    this.#vendor = vendor
  }

  report(): Report {
    const faults = [...this.#faults].map(([what, found]) => ({ what, ...found }))
    return {
      requests: { tried: this.#tried, valid: this.#valid, byCaller: this.#byCaller, beyond: this.#beyond },
      passedOn: this.#passedOn,
      answers: { tried: this.#answers, right: this.#right },
      faults: faults.sort((a, b) => b.count - a.count),
    }
  }

  /** A call that selection lets through, as the entry gets it; what it leaves out is not asked for. */
  async call(subject: Subject, name: OperationName, operation: AnyOperation, call: NamedCall): Promise<void> {
    const at = this.#entryOf(subject)
    const named = callOf(name, call.payload as never) as Call
    const demand = demandOf(named, principal())
    if (exclusionOf(at, subject.provider, demand) !== null) return
    const { payload } = adapt(named, at)
    await this.#drive(`${subject.kind} ${subject.model} ${name}: ${call.name}`, name, operation, {
      subject,
      payload,
      own: call.own,
    })
  }

  async models(subject: Subject, operation: AnyOperation): Promise<void> {
    await this.#drive(`${subject.kind} models`, null, operation, { subject, payload: null, own: new Set() })
  }

  /** An exchange at an endpoint of the gateway's own. */
  async door({ name, request, answers, refusal, events, wrong }: DoorCase): Promise<void> {
    const operation = await this.#request(`door: ${name}`, request, new Set())
    if (operation === null) return
    for (const what of wrong) this.#fault(`door: ${operation.path} ${what}`, name)
    const { answers: schemas, path } = operation
    const held = (what: string, value: object, schema: Schema | undefined) =>
      this.#fits(`door: ${what} of ${path}`, name, schema, value)
    const errors = this.#vendor.refusal
    const fit = answers.map((answer) =>
      [
        held('answer', answer, schemas['application/json']),
        ...events.map((event) => held('event', event, schemas['text/event-stream'])),
      ].every(Boolean),
    )
    if (refusal !== null && errors !== undefined)
      fit.push(held('refusal', refusal, { $ref: `contract#/components/schemas/${errors}` }))
    this.#answers += fit.length
    this.#right += fit.filter(Boolean).length
  }

  #fits(what: string, where: string, schema: Schema | undefined, value: object): boolean {
    if (schema === undefined) {
      this.#fault(`${what}: the contract has none`, where)
      return false
    }
    const faults = readable(this.#contract.faults(schema, value), what, new Set())
    for (const { message } of faults) this.#fault(message, where)
    return faults.length === 0
  }

  #entryOf({ kind, model, facts }: Subject): Entry {
    return entry({ provider: configuredProvider({ kind, baseUrl: this.#vendor.root }), model, facts })
  }

  async #drive(
    where: string,
    name: OperationName | null,
    operation: AnyOperation,
    { subject, payload, own }: { subject: Subject; payload: unknown; own: ReadonlySet<string> },
  ): Promise<void> {
    const baseUrl = subject.provider.baseUrl ?? this.#vendor.root
    const target = { model: subject.model, baseUrl, credential: 'secret', options: {} }
    let step: Step<unknown> | null = this.#safely(where, () => operation.start(payload, target))
    if (step?.kind === 'failed') return this.#refused(where, step.failure)
    const sent: { body: Schema } = { body: {} }
    for (let asked = 0; step !== null && asked < STEPS_MAX; asked += 1) {
      if (step.kind === 'done' || step.kind === 'failed') return
      const { request, state }: { request: UpstreamRequest; state: unknown } = step
      const found = await this.#request(where, request, own)
      if (found === null) return
      if (request.headers['content-type'] === 'application/json')
        sent.body = asSchema(JSON.parse(bytesOf(request).toString()))
      const next = (variant: Variant): Read => {
        const answer = this.#fitted(name, payload, variant.answer, sent.body)
        return {
          answer,
          step: this.#safely(where, () => operation.next(state, replyOf(answer, found), payload, target)),
        }
      }
      const variants = this.#answersTo(name, found, request)
      const [fullest] = variants
      if (fullest === undefined)
        return this.#fault(`no answer can be made for ${found.method} ${found.path}`, where)
      step = next(fullest).step
      const ends = step?.kind === 'done' || step?.kind === 'failed'
      const family = `${JSON.stringify(subject.facts)} ${found.method} ${found.path} ${optionsText(payload)}`
      if (!ends || this.#answered.has(family)) continue
      this.#answered.add(family)
      for (const variant of variants) this.#answer(where, name, payload, variant.name, next(variant))
    }
  }

  /** An adapter that leaves a call to another entry does so before anything is sent. */
  #refused(where: string, { kind, reason }: Failure): void {
    if (kind === 'model') this.#passedOn += 1
    else this.#fault(`selection lets through what is refused: ${reason}`, where)
  }

  /** An answer to this very call. */
  #fitted(name: OperationName | null, payload: unknown, answer: unknown, sent: Schema): unknown {
    if (typeof answer !== 'object' || answer === null || ArrayBuffer.isView(answer)) return answer
    const fitted = structuredClone(answer) as Record<string, unknown>
    this.#vendor.echo?.(fitted, sent)
    if (name === 'embeddings') {
      const { input, dimensions } = payload as EmbeddingsCall
      const data = listOf(fitted.data)
      const vector = ({ embedding }: Schema) =>
        Array.isArray(embedding) && dimensions !== null ? { embedding: Array(dimensions).fill(1) } : {}
      if (data.length > 0)
        fitted.data = input.map((_, index) => {
          const item = data[index % data.length] ?? {}
          return { ...item, ...vector(item), index }
        })
    }
    return fitted
  }

  #safely(where: string, run: () => Step<unknown>): Step<unknown> | null {
    try {
      return run()
    } catch (error) {
      this.#fault(`throws ${error}`, where)
      return null
    }
  }

  /** Judges a request. @returns the operation that it goes to, null when the contract has none */
  async #request(where: string, request: UpstreamRequest, own: ReadonlySet<string>) {
    this.#tried += 1
    const { operation, faults } = await judgeRequest(this.#contract, this.#vendor, request, own)
    if (faults.length === 0) this.#valid += 1
    else if (faults.every(({ byCaller }) => byCaller)) this.#byCaller += 1
    else if (faults.every(({ byCaller, source }) => byCaller || source !== undefined)) this.#beyond += 1
    for (const { message, byCaller, source } of faults)
      if (!byCaller && source === undefined)
        this.#fault(`${request.method} ${operation?.path ?? ''} ${message}`, where)
    return operation
  }

  #answersTo(
    name: OperationName | null,
    operation: ContractOperation,
    request: UpstreamRequest,
  ): readonly Variant[] {
    const body = bytesOf(request).toString('latin1')
    const wanted = name === null ? null : (this.#vendor.answerTo?.(name, body) ?? null)
    const asked = `${request.method} ${operation.path}`
    const key = `${asked} ${wanted}`
    const known = this.#variants.get(key)
    if (known !== undefined) return known
    const schema =
      wanted === null ? jsonAnswer(operation) : { $ref: `contract#/components/schemas/${wanted}` }
    const binary = schema === null || isBinary(this.#contract, schema)
    const align = (answer: Record<string, unknown>) => this.#vendor.align?.(answer, asked)
    const made = binary ? [SOUND] : variantsOf(this.#contract, schema, align)
    this.#variants.set(key, made)
    return made
  }

  #answer(
    where: string,
    name: OperationName | null,
    payload: unknown,
    variant: string,
    { answer, step }: Read,
  ): void {
    this.#answers += 1
    if (step === null) return
    const wrong = wrongWith(this.#vendor, name, payload, answer, step)
    if (wrong === null) this.#right += 1
    else this.#fault(`${name ?? 'models'}: ${wrong}`, `${where}, answer ${variant}`)
  }

  #fault(what: string, where: string): void {
    const found = this.#faults.get(what)
    if (found === undefined) this.#faults.set(what, { count: 1, where })
    else found.count += 1
  }
}

/** An answer and the step that an adapter made of it; null: it threw. */
interface Read {
  readonly answer: unknown
  readonly step: Step<unknown> | null
}

const SOUND: Variant = { name: 'bytes', answer: Buffer.from('sound') }

function optionsText(payload: unknown): string {
  const { options = payload } = asSchema(payload)
  return JSON.stringify(options)
}

function jsonAnswer({ answers }: ContractOperation): Schema | null {
  return answers['application/json'] ?? null
}

/** Answers that are a file; some contracts write these as a string of JSON. */
function isBinary(contract: Contract, schema: Schema): boolean {
  const { type, properties, anyOf, allOf } = contract.resolve(schema)
  return type === 'string' || [type, properties, anyOf, allOf].every((one) => one === undefined)
}

function replyOf(answer: unknown, { answers }: ContractOperation) {
  const type = Object.keys(answers)[0] ?? 'application/json'
  if (answer instanceof Uint8Array)
    return {
      status: 200,
      headers: { 'content-type': type.includes('json') ? 'audio/mpeg' : type },
      body: [answer],
    }
  return reply(JSON.stringify(answer))
}

/** Names what a result lacks of an answer; null: nothing. */
function wrongWith(
  vendor: Vendor,
  name: OperationName | null,
  payload: unknown,
  answer: unknown,
  step: Step<unknown>,
): string | null {
  if (step.kind === 'send' || step.kind === 'wait') return 'asks again after an answer that ends the call'
  if (name === 'transcription' || name === 'translation')
    return wrongTranscript(vendor, payload as TranscriptionCall, asSchema(answer), step)
  if (step.kind === 'failed') {
    return isEmpty(name, asSchema(answer)) ? null : `fails: ${step.failure.reason}`
  }
  const body = asSchema(answer)
  switch (name) {
    case 'speech':
      return wrongSpeech(body, step.result as SpeechResult)
    case 'chat':
    case 'complete':
    case 'vision':
      return wrongChat(body, step.result as ChatResult)
    case 'embeddings':
      return (step.result as { embeddings: unknown[] }).embeddings.length === listOf(body.data).length
        ? null
        : 'embeddings are lost'
    case 'image':
      return (step.result as { images: unknown[] }).images.length === listOf(body.data).length
        ? null
        : 'pictures are lost'
    default:
      return null
  }
}

/** Tells whether an answer lacks all that was asked for, so that failing is right. */
function isEmpty(name: OperationName | null, answer: Schema): boolean {
  const items = listOf(answer.data ?? answer.choices ?? answer.models)
  switch (name) {
    case 'image':
      return items.every(({ b64_json, url }) => typeof b64_json !== 'string' && typeof url !== 'string')
    case 'speech':
      return typeof (answer.audio_data ?? answer.audio_base64) !== 'string' || isUntimed(answer)
    case 'embeddings':
      return items.some(({ embedding }) => embedding === undefined || embedding === null)
    case null:
      return items.length === 0
    default:
      return items.length === 0 || JSON.stringify(items).length < 3
  }
}

/** Tells whether an answer that has a place for times has none. */
function isUntimed({ audio_base64: audio, alignment, normalized_alignment: normalized }: Schema): boolean {
  return audio !== undefined && [alignment, normalized].every((one) => one === undefined || one === null)
}

function wrongSpeech(
  { alignment, normalized_alignment: normalized }: Schema,
  { audio, times }: SpeechResult,
): string | null {
  if (Buffer.concat([...audio]).toString() !== 'sound') return 'the audio is another'
  const told = [alignment, normalized].map((one) => {
    const { characters, character_start_times_seconds: starts } = asSchema(one)
    return [characters, starts]
  })
  const kept = [times?.text, times?.normalized].map((one) => [one?.characters, one?.starts])
  return JSON.stringify(told) === JSON.stringify(kept) ? null : 'times are lost'
}

function wrongChat(answer: Schema, { content, tool_calls, usage }: ChatResult): string | null {
  const [choice] = listOf(answer.choices)
  const message = asSchema(choice?.message)
  const given = typeof choice?.text === 'string' ? choice.text : message.content
  if (typeof given === 'string' && !content.includes(given)) return 'the text of the answer is lost'
  const calls = listOf(message.tool_calls).filter((call) => call.function !== undefined)
  if (calls.length !== tool_calls.length) return 'calls of tools are lost'
  const { prompt_tokens: input } = asSchema(answer.usage)
  if (typeof input === 'number' && usage?.input_tokens !== input) return 'tokens are lost'
  return null
}

function wrongTranscript(
  vendor: Vendor,
  { options }: TranscriptionCall,
  answer: Schema,
  step: Extract<Step<unknown>, { readonly kind: 'done' | 'failed' }>,
): string | null {
  const { texts, words, isWhole } = vendor.heard(answer, options)
  const said = texts
    .join(' ')
    .split(/\s+/)
    .filter((word) => word !== '')
  const wantsTimes = options.timestamps !== null || /srt|vtt|verbose_json/.test(options.response_format)
  const wantsTurns =
    options.diarization || options.multichannel || options.response_format === 'diarized_json'
  if (step.kind === 'failed') {
    const mayFail = !isWhole || ((wantsTimes || wantsTurns) && isCut(answer, words, wantsTurns))
    return mayFail || said.length === 0 ? null : `fails: ${step.failure.reason}`
  }
  const result = step.result as TranscriptionResult
  const heard = new Set(result.text.split(/\s+/))
  const lost = said.filter((word) => !heard.has(word))
  if (lost.length > 0) return 'words of the transcript are lost'
  if (result.warnings.length > 0) return null
  const { timestamps } = options
  const timed = words.map(spelled).filter((word) => word !== '')
  if (timestamps === 'word' || timestamps === 'both')
    if (timed.length > result.words.length) return 'words with times are lost without a warning'
  const inSegments = new Set(result.segments.flatMap(({ text }) => text.split(/\s+/)))
  const wantsSegments = wantsTurns || (wantsTimes && timestamps !== 'word')
  if (wantsSegments && said.some((word) => !inSegments.has(word)))
    return 'words of segments are lost without a warning'
  return null
}

/** Tells whether something in an answer has no times or, where these matter, no speaker or channel. */
function isCut(answer: Schema, words: readonly Schema[], wantsTurns: boolean): boolean {
  const { segments, utterances = asSchema(answer.results).utterances } = answer
  const items = [...words, ...listOf(segments), ...listOf(utterances)]
  return items.some(({ start, end, speaker, speaker_id: id, channel }) => {
    const isNobody = wantsTurns && [speaker, id, channel].includes(null)
    return typeof start !== 'number' || typeof end !== 'number' || isNobody
  })
}
