import type { Accounts, AccountView, CreditsAdded } from '../../contracts/ledger.ts'
import { keys } from './key-names.ts'
import { type Ask, replyInteger, replyPairs, replyText, replyTexts, script } from './script.ts'

/** How long a batch of usage is remembered: its sender tries again for as long. */
const BATCH_MS = 3_600_000
/** Marks the fields of keys among those of the spending. */
const KEY_FIELD = 'key:'

const showAccount = script('accounts/show_account', {
  keys: ['account', 'grants', 'spent', 'reservations', 'leases', 'charged'],
  args: ['grant_id', 'grant'],
  reply: viewOf,
})

const addCredits = script('accounts/add_credits', {
  keys: ['account', 'grants'],
  args: ['grant_id', 'micros'],
  reply: (reply): CreditsAdded => {
    if (!Array.isArray(reply)) throw new Error('add_credits.lua replied no list')
    return { booked: reply[0] === 1, creditsMicros: replyInteger(replyText(reply[1])) }
  },
})

const addUsage = script('accounts/add_usage', {
  keys: ['usage', 'spent'],
  args: ['spent_micros', 'token_ms'],
  reply: () => undefined,
})

/** The accounts of workspaces in Redis. Each method is one script. */
export function createRedisAccounts(ask: Ask): Accounts {
  return {
    show: (workspace, { grant }) =>
      ask((redis) =>
        showAccount(redis, {
          account: keys.account(workspace),
          grants: keys.grants(workspace),
          spent: keys.spent(workspace),
          reservations: keys.reservations(workspace),
          leases: keys.leases(workspace),
          charged: keys.charged(workspace),
          grant_id: grant?.id ?? '',
          grant: grant?.micros ?? 0,
        }),
      ),
    addCredits: (workspace, { id, micros }) =>
      ask((redis) =>
        addCredits(redis, {
          account: keys.account(workspace),
          grants: keys.grants(workspace),
          grant_id: id,
          micros,
        }),
      ),
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
    addUsage: ({ token, workspace, spentMicros }) =>
      ask((redis) =>
        addUsage(redis, {
          usage: keys.usage(workspace, token),
          spent: keys.spent(workspace),
          spent_micros: JSON.stringify(spentMicros),
          token_ms: BATCH_MS,
        }),
      ),
  }
}

function viewOf(reply: unknown): AccountView {
  if (!Array.isArray(reply)) throw new Error('show_account.lua replied no list')
  const [credits, trialSpent, overage, reserved, expiredCount, expired] = replyTexts(reply[0])
  const sums = new Map(replyPairs(reply[2]))
  const ofKeys = [...sums].filter(([field]) => field.startsWith(KEY_FIELD))
  return {
    creditsMicros: replyInteger(credits),
    grants: replyPairs(reply[3]).map(grantOf).sort(byTime),
    trialSpentMicros: replyInteger(trialSpent),
    overageMicros: replyInteger(overage),
    reservedMicros: replyInteger(reserved),
    expired: { count: replyInteger(expiredCount), micros: replyInteger(expired) },
    month: replyText(reply[1]),
    spentMicros: replyInteger(sums.get('total')),
    spentByKey: Object.fromEntries(
      ofKeys.map(([field, micros]) => [field.slice(KEY_FIELD.length), replyInteger(micros)]),
    ),
  }
}

/** What an end user has spent in a month. @param kept the month and the micro-USD that it spent then; null: nothing */
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
