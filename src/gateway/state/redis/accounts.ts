import type { Accounts, AccountView, CreditsAdded, LostMoney } from '../../../contracts/ledger.ts'
import { LOST_AT_ONCE, LOST_KEPT_MS } from '../../../contracts/ledger.ts'
import { keys } from './key-names.ts'
import { MONEY, moneyKeys } from './ledger.ts'
import { type Ask, replyInteger, replyPairs, replyText, replyTexts, script } from './script.ts'

/** How long a batch of usage is remembered: its sender tries again for as long. */
const BATCH_MS = 3_600_000
/** Marks the fields of keys among those of the spending, and of months among those of the account. */
const KEY_FIELD = 'key:'
const MONTH_FIELD = 'booked:'

const showAccount = script('accounts/show_account', {
  keys: ['account', 'grants', 'spent', 'reservations', 'leases', 'charged', 'lost'],
  args: ['grant_id', 'grant'],
  steps: MONEY,
  reply: accountView,
})

const addCredits = script('accounts/add_credits', {
  keys: ['account', 'grants', 'spent', 'reservations', 'leases', 'charged', 'lost'],
  args: ['grant_id', 'micros'],
  steps: MONEY,
  reply: (reply): CreditsAdded => {
    if (!Array.isArray(reply)) throw new Error('add_credits.lua replied no list')
    return { booked: reply[0] === 1, creditsMicros: replyInteger(replyText(reply[1])) }
  },
})

const addUsage = script('accounts/add_usage', {
  keys: ['usage', 'spent', 'account'],
  args: ['spent_micros', 'token_ms', 'counted_in'],
  steps: MONEY,
})

const listLost = script('accounts/list_lost', {
  keys: ['account', 'spent', 'reservations', 'leases', 'charged', 'lost'],
  args: ['kept_ms', 'limit'],
  steps: MONEY,
  reply: (reply) => (Array.isArray(reply) ? reply.map(lostOf) : []),
})

const recordedLost = script('accounts/recorded_lost', { keys: ['lost'], args: ['token', 'spend'] })

function lostOf(reply: unknown): LostMoney {
  const [token, spend, keyId, endUser, atMs] = replyTexts(reply)
  return {
    token: replyText(token),
    spendMicros: replyInteger(spend),
    keyId: replyText(keyId),
    atMs: replyInteger(atMs),
    endUser: endUser === '-' ? null : replyText(endUser),
  }
}

/** The accounts of workspaces in Redis. Each method is one script. */
export function createRedisAccounts(ask: Ask): Accounts {
  return {
    show: (workspace, { grant }) =>
      ask(showAccount({ ...moneyKeys(workspace), grant_id: grant?.id ?? '', grant: grant?.micros ?? 0 })),
    addCredits: (workspace, { id, micros }) =>
      ask(addCredits({ ...moneyKeys(workspace), grant_id: id, micros })),
    endUsersSpent: (workspace, accounts) =>
      ask(async (redis) => {
        if (accounts.length === 0) return []
        const [kept, [seconds]] = await Promise.all([
          redis.mget(accounts.map((account) => keys.endUser(workspace, account))),
          redis.time(),
        ])
        const month = new Date(Number(seconds) * 1_000).toISOString().slice(0, 7)
        return kept.map((one) => spentIn(month, one))
      }),
    addUsage: ({ token, workspace, spentMicros, month = '' }) =>
      ask(
        addUsage({
          usage: keys.usage(workspace, token),
          spent: keys.spent(workspace),
          account: keys.account(workspace),
          spent_micros: JSON.stringify(spentMicros),
          token_ms: BATCH_MS,
          counted_in: month,
        }),
      ),
    lost: (workspace) =>
      ask(listLost({ ...moneyKeys(workspace), kept_ms: LOST_KEPT_MS, limit: LOST_AT_ONCE })),
    recorded: (workspace, { token, spendMicros: spend }) =>
      ask(recordedLost({ lost: keys.lost(workspace), token, spend })),
  }
}

function accountView(reply: unknown): AccountView {
  if (!Array.isArray(reply)) throw new Error('show_account.lua replied no list')
  const account = new Map(replyPairs(reply[0]))
  const figure = (name: string) => replyInteger(account.get(name))
  const months = [...account].filter(([field]) => field.startsWith(MONTH_FIELD))
  const sums = new Map(replyPairs(reply[2]))
  const ofKeys = [...sums].filter(([field]) => field.startsWith(KEY_FIELD))
  return {
    creditsMicros: figure('credits'),
    grants: replyPairs(reply[3]).map(grantOf).sort(byTime),
    trialSpentMicros: figure('trial_spent'),
    overageMicros: figure('overage'),
    reservedMicros: figure('reserved'),
    expired: { count: figure('expired_count'), micros: figure('expired') },
    booked: {
      sinceMs: figure('booked_since_ms'),
      months: months
        .map(([field, micros]) => ({ month: field.slice(MONTH_FIELD.length), micros: replyInteger(micros) }))
        .sort((one, other) => (one.month < other.month ? -1 : 1)),
    },
    month: replyText(reply[1]),
    spentMicros: replyInteger(sums.get('total')),
    spentByKey: Object.fromEntries(
      ofKeys.map(([field, micros]) => [field.slice(KEY_FIELD.length), replyInteger(micros)]),
    ),
  }
}

/** An end user's spending in a month. @param kept the month and the micro-USD that it spent then; null: nothing */
function spentIn(month: string, kept: string | null): number {
  const [countedIn, micros] = kept?.split(' ') ?? []
  return countedIn === month ? replyInteger(micros) : 0
}

type Grant = AccountView['grants'][number]

function grantOf([id, record]: [string, string]): Grant {
  const [micros, bookedAtMs] = record.split(' ')
  return { id, micros: replyInteger(micros), bookedAtMs: replyInteger(bookedAtMs) }
}

function byTime(one: Grant, other: Grant): number {
  return one.bookedAtMs - other.bookedAtMs || (one.id < other.id ? -1 : 1)
}
