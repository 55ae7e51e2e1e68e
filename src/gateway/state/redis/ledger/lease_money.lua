-- Moves the money that a node hands out to calls of a key into a new reservation: see `CallLedger.lease`.
--
-- KEYS void account grants spent reservations leases charged lost
-- ARGV token from charge_platform charge_spend charge_overage
--      key_id held_platform held_spend lease_ms key_budget workspace_budget
--      grant_id grant trial trial_ends_ms
--      more_platform more_spend use_ms used_platform used_spend
-- Reply {'leased', platform, spend, use_ms, month} | {'over'}
--
-- An empty `from`: the lease begins. An empty budget, grant_id or trial: there is none. Amounts are whole micro-USD.
-- The reservation of `from` becomes its charge, and that of `token` has what is held on and what is added. Of either
-- amount at most a hundredth of what is left is added, and nothing to a reservation of another month. A token that the
-- reservations know was answered before, and its answer was lost.

local SWEPT_AT_ONCE = 20
local LEASED_PART = 100
local UNLIMITED = 9007199254740991

local void, account, grants, spent, reservations, leases, charged, lost = unpack(KEYS)
local money = { account = account, spent = spent, reservations = reservations, leases = leases, charged = charged,
  lost = lost }
local token, from, key_id = ARGV[1], ARGV[2], ARGV[6]
local held_platform, held_spend = tonumber(ARGV[7]), tonumber(ARGV[8])
local more_platform, more_spend = tonumber(ARGV[16]), tonumber(ARGV[17])

if redis.call('EXISTS', void) == 1 then return { 'over' } end

local known = redis.call('HGET', reservations, token)
if known then
  local platform, spend, counted_in = string.match(known, '^%d+ %S+ (%d+) (%d+) (%S+)')
  local more_left = digits(math.max(0, platform - held_platform))
  return { 'leased', more_left, digits(math.max(0, spend - held_spend)), '0', counted_in }
end

local purse, month, old_platform, old_spend
if from ~= '' then
  local record = redis.call('HGET', reservations, from)
  if not record or tonumber(redis.call('ZSCORE', leases, from) or 0) <= now_ms then return { 'over' } end
  purse, old_platform, old_spend, month = string.match(record, '^0 (%S+) (%d+) (%d+) (%S+) ')
  if not purse then return { 'over' } end
  redis.call('HDEL', reservations, from)
  redis.call('ZREM', leases, from)
end

expire_due(money, SWEPT_AT_ONCE)
book_grant(account, grants, ARGV[12], ARGV[13])

local this_month, month_ends_ms = begin_month(account, spent)
month = month or this_month
local is_this_month = month == this_month

-- What the calls came to is charged; the rest is held on, of the purse no more than there was.
local kept_platform, kept_spend = 0, 0
if purse then
  local platform, spend = tonumber(old_platform), tonumber(old_spend)
  local charged_platform, charged_spend = tonumber(ARGV[3]), tonumber(ARGV[4])
  charge(money, purse, platform, spend, month, key_id, charged_platform, charged_spend)
  add(account, 'overage', tonumber(ARGV[5]))
  kept_platform, kept_spend = math.min(held_platform, math.max(0, platform - charged_platform)), held_spend
  give(account, purse, -kept_platform)
  add(account, 'reserved', kept_platform)
  spend_more(spent, month, key_id, kept_spend)
end

local trial, trial_ends_ms = tonumber(ARGV[14]), tonumber(ARGV[15])
local trial_left = trial and now_ms < trial_ends_ms and trial - amount(account, 'trial_spent') or 0
-- The last of a trial is left to calls that it covers one by one.
if not purse then purse = more_platform == 0 and 'none' or trial_left > 0 and 'trial' or 'credits' end

local added_platform, added_spend = 0, 0
if is_this_month then
  local left = 0
  if purse == 'trial' then left = trial_left end
  if purse == 'credits' and trial_left <= 0 then left = amount(account, 'credits') end
  local function part(micros) return math.max(0, math.floor(micros / LEASED_PART)) end
  local function part_of_budget(budget, field)
    return budget and part(budget - amount(spent, field)) or UNLIMITED
  end
  added_platform = math.min(more_platform, part(left))
  added_spend = math.min(more_spend, part_of_budget(tonumber(ARGV[10]), 'key:' .. key_id),
    part_of_budget(tonumber(ARGV[11]), 'total'))
  -- Spending comes with the money that pays for it: of a purse that gives less, less is set aside.
  local wanted = held_platform + more_platform
  if purse ~= 'none' and wanted > 0 then
    local share = (kept_platform + added_platform) / wanted
    added_spend = math.min(added_spend, math.max(0, math.floor((held_spend + more_spend) * share) - kept_spend))
  end
  give(account, purse, -added_platform)
  add(account, 'reserved', added_platform)
  spend_more(spent, this_month, key_id, added_spend)
end
redis.call('PEXPIRE', spent, SPENT_TTL_MS)

local platform, spend = kept_platform + added_platform, kept_spend + added_spend
if platform > 0 or spend > 0 then
  local used = '=' .. ARGV[19] .. '=' .. ARGV[20]
  local record = { '0', purse, digits(platform), digits(spend), month, key_id, used }
  redis.call('HSET', reservations, token, table.concat(record, ' '))
  redis.call('ZADD', leases, digits(now_ms + ARGV[9]), token)
end

local use_ms = is_this_month and math.min(tonumber(ARGV[18]), month_ends_ms - now_ms) or 0
if purse == 'trial' and trial then use_ms = math.min(use_ms, trial_ends_ms - now_ms) end
return { 'leased', digits(added_platform), digits(added_spend), digits(math.max(0, use_ms)), month }
