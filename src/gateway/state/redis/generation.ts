import { GatewayError } from '../../../contracts/errors.ts'
import { newId } from '../../../contracts/ids.ts'
import type { Accounts, AccountTerms, CallLedger } from '../../../contracts/ledger.ts'
import { errorMessage, type Logger } from '../../../contracts/log.ts'
import type { GenerationWitness, StateMemory } from '../../../contracts/state.ts'
import type { Clock, Timer } from '../../../contracts/time.ts'
import type { RedisConnection } from './connect.ts'
import { keys } from './key-names.ts'
import type { Ask } from './script.ts'

/** How often a node looks whether Redis still is the one that it knows. */
const LOOK_MS = 2_000

const LOST =
  'Redis has lost what it held: nothing is granted until an operator runs larkway state accept-loss'

/** The identity that Redis reports of itself. */
interface Mark {
  /** The generation that it has; null: it never had one, or has lost it. */
  readonly id: string | null
  /** Generations whose loss was accepted when it got this one. */
  readonly after: readonly string[]
  /** One that a node misses. */
  readonly missed: string | null
}

/**
 * The generation of what Redis holds: an id that the first node gives it and that nodes remember, in memory and where a
 * witness keeps it. A Redis without it, or with another, has lost everything, and grants of the configuration are not
 * booked again until an operator accepts that, which gives it a new generation that names the ones before.
 *
 * Two nodes that start at once on an empty Redis get the same one, since it is written only where there is none.
 */
export class RedisGeneration implements StateMemory {
  readonly #redis: RedisConnection
  readonly #ask: Ask
  readonly #log: Logger
  readonly #lookMs: number
  #witness: GenerationWitness | null = null
  #isWatched = false
  readonly #clock: Clock
  #timer: Timer | null = null
  #known: string | null = null
  #isNoted = false
  isLost = false
  /** Terms whose grant is booked → the same without it. */
  #booked = new WeakMap<AccountTerms, AccountTerms>()

  constructor(
    redis: RedisConnection,
    ask: Ask,
    log: Logger,
    { lookMs = LOOK_MS, clock }: { readonly lookMs?: number | undefined; readonly clock: Clock },
  ) {
    this.#redis = redis
    this.#ask = ask
    this.#log = log
    this.#lookMs = lookMs
    this.#clock = clock
  }

  async watch(witness: GenerationWitness | null): Promise<void> {
    this.#witness = witness
    this.#isWatched = true
    await this.#look()
    if (witness === null) return
    this.#timer = this.#clock.every(this.#lookMs, this.#look).unref()
    this.#redis.on('ready', this.#look)
  }

  async acceptLoss(): Promise<string | null> {
    const { id, after, missed } = await this.#mark()
    if (missed === null || after.includes(missed)) return null
    const before = id === null ? missed : `${missed} ${id}`
    await this.#ask((redis) => redis.hset(keys.generation, { id: newId('gen'), after: before }))
    return missed
  }

  close(): void {
    this.#timer?.close()
    this.#redis.off('ready', this.#look)
  }

  /**
   * Runs what goes by terms once their grant is booked, if this is the Redis that never booked it; and with neither
   * grant nor trial, if it has lost that. Booked by itself: a call may begin and end without a look at its account.
   */
  async granting<Answer>(
    terms: AccountTerms,
    book: (terms: AccountTerms) => Promise<unknown>,
    run: (terms: AccountTerms, isWithheld: boolean) => Promise<Answer>,
  ): Promise<Answer> {
    if (!this.#isWatched || (terms.grant === null && terms.trial === null)) return run(terms, false)
    const booked = this.#booked.get(terms)
    if (booked !== undefined && !this.isLost) return run(booked, false)
    const granted = { ...terms, grant: null }
    if (!(await this.#isTheSame())) return run({ ...granted, trial: null }, true)
    if (terms.grant !== null) await book(terms)
    this.#booked.set(terms, granted)
    return run(granted, false)
  }

  async #isTheSame(): Promise<boolean> {
    if (this.isLost) return false
    if (this.#witness === null) return true
    if (this.#known === null) return false
    return (await this.#mark()).id === this.#known
  }

  async #mark(): Promise<Mark> {
    const [id = null, after, missed = null] = await this.#ask((redis) =>
      redis.hmget(keys.generation, 'id', 'after', 'missed'),
    )
    return { id, after: after?.split(' ') ?? [], missed }
  }

  readonly #look = async (): Promise<void> => {
    try {
      // First what is remembered: it was in Redis before. Another node that starts now may put it into both.
      const remembered = this.#known ?? (await this.#witness?.latest()) ?? null
      await this.#compare(await this.#mark(), remembered)
    } catch (error) {
      // The state, or the store, says itself when it is away; until it is back nothing is granted that was not before.
      this.#log.debug({ reason: errorMessage(error) }, 'the generation of the state is not known')
    }
  }

  async #compare({ id, after, missed }: Mark, remembered: string | null): Promise<void> {
    if (this.#witness === null) {
      this.isLost = missed !== null && !after.includes(missed)
      return
    }
    if (id !== null && (remembered === null || remembered === id || after.includes(remembered)))
      return this.#adopt(id)
    if (remembered !== null) return this.#miss(remembered)
    await this.#ask((redis) => redis.hsetnx(keys.generation, 'id', newId('gen')))
    const { id: made } = await this.#mark()
    if (made !== null) await this.#adopt(made)
  }

  async #adopt(id: string): Promise<void> {
    if (this.isLost) this.#log.warn('the loss of what Redis held is accepted: grants are booked again')
    this.isLost = false
    if (this.#known !== id) {
      this.#known = id
      this.#isNoted = false
      this.#booked = new WeakMap()
    }
    if (this.#isNoted) return
    await this.#witness?.note(id)
    this.#isNoted = true
  }

  async #miss(remembered: string): Promise<void> {
    this.#known = remembered
    if (!this.isLost) this.#log.error({ reason: `it does not have ${remembered}` }, LOST)
    this.isLost = true
    // For the command that accepts it, which remembers no generation.
    await this.#ask((redis) => redis.hset(keys.generation, 'missed', remembered))
  }
}

/** The money of a Redis whose grants are booked once for each generation. */
export function grantedOnce<Money extends { ledger: CallLedger; accounts: Accounts }>(
  { ledger, accounts }: Money,
  generation: RedisGeneration,
): { readonly ledger: CallLedger; readonly accounts: Accounts } {
  const bookFor = (workspace: string) => (terms: AccountTerms) => accounts.show(workspace, terms)
  return {
    ledger: {
      ...ledger,
      async begin(beginning) {
        const { reservation } = beginning
        if (reservation === null) return ledger.begin(beginning)
        return generation.granting(
          reservation.terms,
          bookFor(beginning.workspace),
          async (terms, isWithheld) => {
            const begun = await ledger.begin({ ...beginning, reservation: { ...reservation, terms } })
            const isShort = begun.state === 'refused' && (begun.why === 'credits' || begun.why === 'trial')
            if (!isWithheld || !isShort) return begun
            // How much there was is not known: the customer has not used it up.
            const cause = new Error('the accounts are lost')
            throw new GatewayError('DEPENDENCY_UNAVAILABLE', undefined, { cause })
          },
        )
      },
      lease: (leasing) =>
        generation.granting(leasing.held.terms, bookFor(leasing.workspace), (terms) =>
          ledger.lease({ ...leasing, held: { ...leasing.held, terms } }),
        ),
    },
    accounts: {
      ...accounts,
      show: (workspace, given) => generation.granting(given, bookFor(workspace), bookFor(workspace)),
    },
  }
}
