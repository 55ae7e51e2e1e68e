import type { Test } from 'tap'
import { canonicalJson } from '../../../src/contracts/json.ts'
import type { Beginning, Leased, Leasing, SlotEnd, UsageBatch } from '../../../src/contracts/ledger.ts'
import { Dice } from '../../support/dice.ts'
import {
  claimOf,
  figuresOf,
  LONG_MS,
  newDigest,
  newToken,
  newWorkspace,
  reserve,
  resultOf,
  type StateUnderTest,
} from '../../support/state-under-test.ts'
import { LedgerModel } from './ledger-model.ts'

/** Within it a cancelled token is known for certain, and so is a batch of usage. */
const REMEMBERED_MS = 110_000
/** For so long nothing more is set aside for a job that was charged. */
const CHARGE_REMEMBERED_MS = 30 * 86_400_000
const KEYS = ['key_one', 'key_two', 'key_three']
const END_USERS = ['ann', 'ben']
const MAX_STEPS_BETWEEN_LOOKS = 6
/** What is done, as often as it stands here. */
const OFTEN =
  'begin begin begin begin settle settle settle cancel look lease lease lease addCredits addUsage wait'.split(
    ' ',
  )

interface Walk {
  readonly seed: number
  readonly steps: number
}

/**
 * Random histories, each step compared with a model. Where the clock can be moved, leases run out and months end as
 * well.
 *
 * @param walks how many histories, and how many steps each has
 */
export function ledgerModelContract(
  t: Test,
  start: (t: Test) => Promise<StateUnderTest>,
  walks: { readonly count: number; readonly steps: number },
): void {
  const first = Math.floor(Math.random() * 1_000_000)
  t.test(`random histories behave as the model says, from seed ${first}`, async (t) => {
    const under = await start(t)
    for (let seed = first; seed < first + walks.count; seed++)
      if (!(await walk(t, under, { seed, steps: walks.steps }))) break
  })
}

/** @returns whether state and model agreed all the way */
async function walk(t: Test, { state, setClock }: StateUnderTest, { seed, steps }: Walk): Promise<boolean> {
  const { ledger, accounts } = state
  const dice = new Dice(seed)
  const model = new LedgerModel(setClock ? Date.UTC(2027, dice.below(12), 1 + dice.below(28)) : Date.now())
  setClock?.(model.nowMs)
  const draw = drawing(dice, model, setClock !== null)
  const history: string[] = []
  const agree = (what: string, said: unknown, expected: unknown): boolean => {
    history.push(`${what} → ${JSON.stringify(said)}`)
    if (isSame(said, expected)) return true
    t.same(said, expected, `seed ${seed}, step ${history.length}: ${what}`)
    t.comment(`seed ${seed}:\n${history.slice(-40).join('\n')}`)
    return false
  }
  const moves: Record<string, (workspace: string) => Promise<boolean>> = {
    async begin(workspace) {
      const beginning = draw.beginning(workspace)
      const begun = await ledger.begin(beginning)
      return agree(`begin ${JSON.stringify(beginning)}`, begun, model.begin(beginning))
    },
    async settle(workspace) {
      const settlement = draw.settlement(workspace)
      const { slotHeld, endUserMicros } = await ledger.settle(settlement)
      const account = settlement.endUser
      if (account !== undefined && endUserMicros !== undefined) {
        const told = await accounts.endUsersSpent(workspace, [account])
        if (!agree(`settle tells of ${account}`, [endUserMicros], told)) return false
      }
      return agree(`settle ${JSON.stringify(settlement)}`, slotHeld, model.settle(settlement) ?? slotHeld)
    },
    async cancel(workspace) {
      const cancellation = draw.cancellation(workspace)
      model.cancel(cancellation)
      return agree(`cancel ${JSON.stringify(cancellation)}`, await ledger.cancel(cancellation), undefined)
    },
    async lease(workspace) {
      const leasing = draw.leasing(workspace)
      const [leased, expected] = [await ledger.lease(leasing), model.lease(leasing)]
      draw.leased(leasing, expected)
      // Without a clock of the test's own, the end of a trial or a month comes nearer meanwhile.
      const said = ({ useMs, ...rest }: Partial<Leased> & { useMs?: number }) =>
        setClock ? { useMs, ...rest } : rest
      return agree(`lease ${JSON.stringify(leasing)}`, said(leased), said(expected))
    },
    async look(workspace) {
      const id = draw.slotId()
      return agree(`look ${workspace} ${id}`, await ledger.look(workspace, id), model.look(workspace, id))
    },
    async addCredits(workspace) {
      const grant = { id: `grant_${dice.below(8)}`, micros: dice.below(3000) - 1000 }
      const added = await accounts.addCredits(workspace, grant)
      return agree(`add ${JSON.stringify(grant)}`, added, model.addCredits(workspace, grant))
    },
    async addUsage(workspace) {
      const batch = draw.usage(workspace)
      model.addUsage(batch)
      return agree(`use ${JSON.stringify(batch)}`, await accounts.addUsage(batch), undefined)
    },
    async wait() {
      if (!setClock) return true
      model.nowMs = draw.later()
      setClock(model.nowMs)
      return agree(`it is ${new Date(model.nowMs).toISOString()}`, undefined, undefined)
    },
  }
  const act = () => moves[dice.one(OFTEN)]!(draw.workspace())
  const compare = async (): Promise<boolean> => {
    for (const workspace of draw.workspaces) {
      const terms = draw.terms()
      const view = figuresOf(await accounts.show(workspace, terms))
      if (!agree(`show ${workspace} ${JSON.stringify(terms)}`, view, model.figures(workspace, terms)))
        return false
      const spent = await accounts.endUsersSpent(workspace, END_USERS)
      if (!agree(`end users of ${workspace}`, spent, model.endUsersSpent(workspace, END_USERS))) return false
    }
    return true
  }

  for (let step = 0; step < steps; ) {
    const until = step + 1 + dice.below(MAX_STEPS_BETWEEN_LOOKS)
    for (; step < until; step++) if (!(await act())) return false
    if (!(await compare())) return false
  }
  t.pass(`seed ${seed}: ${history.length} steps agree`)
  return true
}

/** Everything that is drawn: mostly what makes sense, and what came before again, and what belongs to others. */
function drawing(dice: Dice, model: LedgerModel, timePasses: boolean) {
  const workspaces = [newWorkspace(), newWorkspace()]
  const slotIds = Array.from({ length: 5 }, newDigest)
  const begun: { beginning: Beginning; atMs: number }[] = []
  const cancelledAtMs = new Map<string, number>()
  const used: { batch: UsageBatch; atMs: number }[] = []
  const leaseMs = () => (timePasses ? dice.one([1000, 30_000, 600_000, LONG_MS]) : LONG_MS)
  const ttlMs = () => (timePasses ? dice.one([5000, 300_000, 24 * LONG_MS]) : LONG_MS)
  const slotId = () => dice.one(slotIds)
  const micros = () => dice.below(600)

  const terms = () => ({
    grant: dice.maybe(0.3, () => ({ id: `grant_${dice.below(8)}`, micros: dice.below(2000) })) ?? null,
    trial:
      dice.maybe(0.4, () => ({
        allowanceMicros: dice.one([500, 1500]),
        expiresAtMs: model.nowMs + dice.one([-1000, 20_000, 100 * LONG_MS]),
      })) ?? null,
    budgetMicros: dice.maybe(0.3, () => dice.below(4000)) ?? null,
  })

  const endUserBudget = (account: string) => ({ endUser: { account, budgetMicros: dice.below(1500) } })
  /** For whom money was set aside by a token, when that was done first: it stays so. Null: for no end user. */
  const accounts = new Map<string, string | null>()
  /** As the gateway tells an end which end user it began with. */
  const accountOf = (token: string) => {
    const account = accounts.get(token) ?? null
    return account === null ? {} : { endUser: account }
  }

  const fresh = (workspace: string): Beginning => {
    const slot =
      dice.maybe(0.7, () =>
        claimOf(slotId(), { fingerprint: dice.one(['f1', 'f2']), leaseMs: leaseMs(), ttlMs: ttlMs() }),
      ) ?? null
    const platformMicros = dice.chance(0.2) ? 0 : micros()
    const reservation =
      dice.maybe(0.8, () =>
        reserve(platformMicros, {
          keyId: dice.one(KEYS),
          terms: terms(),
          keyBudgetMicros: dice.maybe(0.3, () => dice.below(2000)) ?? null,
          spendMicros: dice.chance(0.5) ? platformMicros : micros(),
          leaseMs: leaseMs(),
          ...dice.maybe(0.5, () => endUserBudget(dice.one(END_USERS))),
        }),
      ) ?? null
    return { token: newToken(), workspace, slot, reservation }
  }

  /** A claim of a job: the first one, the next, one that is late, or the same again. */
  const claimed = (workspace: string): Beginning => {
    const before = begun.filter(({ beginning }) => beginning.claim && beginning.workspace === workspace)
    const made = fresh(workspace)
    if (before.length === 0 || dice.chance(0.2)) return { ...made, slot: null, claim: { number: 1 } }
    const { token, claim } = dice.one(before.slice(-8)).beginning
    const number = Math.max(1, (claim?.number ?? 1) + dice.one([-1, 0, 1, 1]))
    if (made.reservation === null) return { ...made, slot: null, token, claim: { number } }
    const account = accounts.get(token)
    if (account === undefined) return { ...made, slot: null, token, claim: { number } }
    // Whom a job is for stays as it is; the budget may be another by now.
    const { endUser: _, ...terms } = made.reservation
    const same = account === null ? terms : { ...terms, ...endUserBudget(account) }
    return { ...made, slot: null, token, claim: { number }, reservation: same }
  }

  const leases: { last: Leasing; granted: Leased }[] = []
  const someMicros = (most: number) => (dice.chance(0.2) ? 0 : dice.below(most))

  /** A lease that begins, one that goes on with what there is or ends, and what was sent before. */
  const leasing = (workspace: string): Leasing => {
    const own = leases.filter(({ last }) => last.workspace === workspace).slice(-6)
    const more = { platformMicros: someMicros(60), spendMicros: someMicros(60) }
    const common = { token: newToken(), workspace, more, useMs: dice.one([500, 60_000]) }
    const fresh = { terms: terms(), keyBudgetMicros: dice.maybe(0.3, () => dice.below(4000)) ?? null }
    if (own.length === 0 || dice.chance(0.3)) {
      const held = reserve(0, { keyId: dice.one(KEYS), ...fresh, leaseMs: leaseMs() })
      return { ...common, from: null, held, used: { platformMicros: 0, spendMicros: 0 } }
    }
    const { last, granted } = dice.one(own)
    const isOpen = model.isOpen(workspace, last.token)
    if (isOpen && dice.chance(0.2)) return last
    const added = granted.state === 'leased' ? granted.more : { platformMicros: 0, spendMicros: 0 }
    const platformMicros = last.held.platformMicros + added.platformMicros
    const chargedMicros = dice.below(platformMicros + 1)
    const charge = { platformMicros: chargedMicros, spendMicros: micros(), overageMicros: someMicros(9) }
    const heldMicros = dice.chance(0.3) ? 0 : dice.below(platformMicros - chargedMicros + 1)
    const spendMicros = dice.chance(0.3) ? 0 : dice.below(last.held.spendMicros + added.spendMicros + 1)
    const held = { ...last.held, ...fresh, platformMicros: heldMicros, spendMicros, leaseMs: leaseMs() }
    const ends = dice.chance(0.3)
    return {
      ...common,
      from: { token: last.token, charge },
      held,
      used: { platformMicros: dice.below(heldMicros + 1), spendMicros: dice.below(spendMicros + 1) },
      more: ends ? { platformMicros: 0, spendMicros: 0 } : more,
    }
  }

  /** A call may begin again as long as nothing of it has run out, and the state knows for certain what became of it. */
  const again = (workspace: string): Beginning | undefined => {
    const candidates = begun.filter(({ beginning, atMs }) => {
      const { slot, reservation, token, claim } = beginning
      if (claim) return false
      const leftMs = Math.min(slot?.leaseMs ?? LONG_MS, reservation?.leaseMs ?? LONG_MS)
      const since = cancelledAtMs.get(token)
      if (since !== undefined) return model.nowMs - since < REMEMBERED_MS && beginning.workspace === workspace
      return beginning.workspace === workspace && model.nowMs - atMs < leftMs && !settled.has(token)
    })
    return candidates.length === 0 ? undefined : dice.one(candidates).beginning
  }
  const settled = new Set<string>()

  const end = (): SlotEnd => {
    const state = dice.one(['stored', 'stored', 'released', 'burned'] as const)
    if (state === 'released') return { state }
    if (state === 'burned') return { state, ttlMs: ttlMs() }
    return { state, result: resultOf(`text ${dice.below(1000)}`), ttlMs: ttlMs() }
  }

  /** A call of before, mostly a late one; now and then one that never was. */
  const known = (workspace: string): Beginning => {
    const own = begun.filter(({ beginning }) => beginning.workspace === workspace).slice(-12)
    return own.length === 0 || dice.chance(0.05) ? fresh(workspace) : dice.one(own).beginning
  }

  return {
    workspaces,
    terms,
    slotId,
    workspace: () => dice.one(workspaces),
    beginning(workspace: string): Beginning {
      const repeated = dice.chance(0.25) ? again(workspace) : undefined
      if (repeated) return repeated
      const beginning = dice.chance(0.4) ? claimed(workspace) : fresh(workspace)
      begun.push({ beginning, atMs: model.nowMs })
      const { token, reservation } = beginning
      if (reservation !== null && !accounts.has(token))
        accounts.set(token, reservation.endUser?.account ?? null)
      return beginning
    },
    settlement(workspace: string) {
      const { token, slot, reservation, claim } = known(workspace)
      settled.add(token)
      const id = dice.chance(0.05) ? slotId() : slot?.id
      const platformMicros = dice.chance(0.4) ? 0 : micros()
      const charge = { platformMicros, spendMicros: dice.chance(0.4) ? platformMicros : micros() }
      return {
        token,
        workspace,
        ...(claim && { claim }),
        slot: id === undefined ? null : { id, end: end() },
        charge: reservation && dice.chance(0.95) ? charge : null,
        ...accountOf(token),
      }
    },
    cancellation(workspace: string) {
      const leased = leases.filter(({ last }) => last.workspace === workspace)
      if (leased.length > 0 && dice.chance(0.1)) {
        const { token } = dice.one(leased).last
        return { token, workspace, slotId: null }
      }
      const { token, slot, claim } = known(workspace)
      cancelledAtMs.set(token, model.nowMs)
      return { token, workspace, slotId: slot?.id ?? null, ...(claim && { claim }), ...accountOf(token) }
    },
    leasing,
    leased(last: Leasing, granted: Leased) {
      const known = leases.find((one) => one.last.token === last.from?.token)
      if (granted.state === 'over' || leases.some((one) => one.last.token === last.token)) return
      if (known === undefined) leases.push({ last, granted })
      // Now and then the one before is sent on from again, as by a message that was late.
      else if (dice.chance(0.9)) Object.assign(known, { last, granted })
    },
    usage(workspace: string): UsageBatch {
      const recent = used.filter(
        ({ batch, atMs }) => batch.workspace === workspace && model.nowMs - atMs < REMEMBERED_MS,
      )
      if (recent.length > 0 && dice.chance(0.3)) return dice.one(recent).batch
      const spentMicros = Object.fromEntries(dice.some(KEYS, 0.6).map((keyId) => [keyId, micros()]))
      const batch = { token: newToken(), workspace, spentMicros }
      used.push({ batch, atMs: model.nowMs })
      return batch
    },
    later(): number {
      const date = new Date(model.nowMs)
      const monthEndMs = Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1)
      const stepMs = dice.one([1, 700, 4000, 40_000, 400_000, 2 * LONG_MS])
      if (dice.chance(0.02)) return model.nowMs + CHARGE_REMEMBERED_MS - stepMs
      return dice.chance(0.08) ? monthEndMs - 1 + dice.below(3) : model.nowMs + stepMs
    },
  }
}

function isSame(said: unknown, expected: unknown): boolean {
  return canonicalJson(said) === canonicalJson(expected)
}
