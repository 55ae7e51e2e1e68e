-- Moves the money that a node hands out to calls of a key into a new reservation: see `CallLedger.lease`.
--
-- KEYS void account grants spent reservations leases charged
-- ARGV token from charge_platform charge_spend charge_overage
--      key_id held_platform held_spend lease_ms key_budget workspace_budget
--      grant_id grant trial trial_ends_ms
--      more_platform more_spend use_ms
-- Reply {'leased', platform, spend, use_ms} | {'over'}
--
-- An empty `from`: the lease begins. An empty budget, grant_id or trial: there is none. Amounts are whole micro-USD.
-- The reservation of `from` becomes its charge, and that of `token` has what is held on and what is added. Of either
-- amount at most a hundredth of what is left is added, and nothing to a reservation of another month. A token that the
-- reservations know was answered before, and its answer was lost.

local SWEPT_AT_ONCE = 20
local SPENT_TTL_MS = 32 * 86400000
local CHARGED_MS = 30 * 86400000
local LEASED_PART = 100
local UNLIMITED = 9007199254740991

local void, account, grants, spent, reservations, leases, charged = unpack(KEYS)
local token, from, key_id = ARGV[1], ARGV[2], ARGV[6]
local held_platform, held_spend = tonumber(ARGV[7]), tonumber(ARGV[8])
local more_platform, more_spend = tonumber(ARGV[16]), tonumber(ARGV[17])

local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)

-- Whole and without an exponent. Zero is added because a negative zero is no integer to Redis.
local function digits(number) return string.format('%.0f', number + 0) end
local function amount(hash, field) return tonumber(redis.call('HGET', hash, field) or 0) end
local function add(hash, field, number) redis.call('HINCRBY', hash, field, digits(number)) end

-- The month in UTC as yyyy-mm, and when it ends: days since a first of March, so that a leap day is the last of its
-- year.
local function month_of(ms)
  local days = math.floor(ms / 86400000) + 719468
  local era, day = math.floor(days / 146097), days % 146097
  local year = math.floor((day - math.floor(day / 1460) + math.floor(day / 36524) - math.floor(day / 146096)) / 365)
  local of_year = day - 365 * year - math.floor(year / 4) + math.floor(year / 100)
  local index = math.floor((5 * of_year + 2) / 153)
  local next_first = math.floor((153 * (index + 1) + 2) / 5)
  -- The twelfth, February, ends with the year, whose last day the table above does not know.
  if index == 11 then
    local ends = year + 1
    local is_leap = (ends % 4 == 0 and ends % 100 ~= 0) or ends % 400 == 0
    next_first = is_leap and 366 or 365
  end
  local month = index + 3
  if month > 12 then year, month = year + 1, month - 12 end
  local end_ms = (math.floor(ms / 86400000) - of_year + next_first) * 86400000
  return string.format('%04d-%02d', era * 400 + year, month), end_ms
end

-- The lease of a reservation is over: it stays charged as it is.
local function expire(expired, lease_until_ms)
  local by, reserved = string.match(redis.call('HGET', reservations, expired) or '', '^(%d+) %S+ (%d+)')
  redis.call('HDEL', reservations, expired)
  redis.call('ZREM', leases, expired)
  -- A record that was lost must not keep the workspace from calling.
  if not by then return end
  add(account, 'reserved', -tonumber(reserved))
  add(account, 'expired_count', 1)
  add(account, 'expired', tonumber(reserved))
  if by == '0' then return end
  redis.call('ZADD', charged, digits(lease_until_ms + CHARGED_MS), expired)
  redis.call('PEXPIRE', charged, CHARGED_MS)
end

if redis.call('EXISTS', void) == 1 then return { 'over' } end

local known = redis.call('HGET', reservations, token)
if known then
  local platform, spend = string.match(known, '^%d+ %S+ (%d+) (%d+)')
  return { 'leased', digits(math.max(0, platform - held_platform)), digits(math.max(0, spend - held_spend)), '0' }
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

local due = redis.call('ZRANGEBYSCORE', leases, '-inf', digits(now_ms), 'WITHSCORES', 'LIMIT', 0, SWEPT_AT_ONCE)
for i = 1, #due, 2 do expire(due[i], tonumber(due[i + 1])) end

local grant_id = ARGV[12]
if grant_id ~= '' and redis.call('HSETNX', grants, grant_id, ARGV[13] .. ' ' .. digits(now_ms)) == 1 then
  redis.call('HINCRBY', account, 'credits', ARGV[13])
end

local this_month, month_ends_ms = month_of(now_ms)
if redis.call('HGET', spent, 'month') ~= this_month then
  redis.call('DEL', spent)
  redis.call('HSET', spent, 'month', this_month)
end
local is_this_month = not month or month == this_month

-- Takes money out of the purse, or puts it back where it is negative, and counts it as reserved.
local function take(platform)
  if purse == 'trial' then add(account, 'trial_spent', platform) end
  if purse == 'credits' then add(account, 'credits', -platform) end
end

-- What the calls came to is charged; the rest is held on, of the purse no more than there was.
local kept_platform, kept_spend = 0, 0
if purse then
  local platform, charge = tonumber(old_platform), tonumber(ARGV[3])
  local unused = math.max(0, platform - charge)
  add(account, 'overage', math.max(0, charge - platform) + tonumber(ARGV[5]))
  kept_platform, kept_spend = math.min(held_platform, unused), held_spend
  take(kept_platform - unused)
  add(account, 'reserved', kept_platform - platform)
  if is_this_month then
    local more = ARGV[4] - old_spend + kept_spend
    add(spent, 'total', more)
    add(spent, 'key:' .. key_id, more)
  end
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
  take(added_platform)
  add(account, 'reserved', added_platform)
  add(spent, 'total', added_spend)
  add(spent, 'key:' .. key_id, added_spend)
end
redis.call('PEXPIRE', spent, SPENT_TTL_MS)

local platform, spend = kept_platform + added_platform, kept_spend + added_spend
if platform > 0 or spend > 0 then
  local record = { '0', purse, digits(platform), digits(spend), month or this_month, key_id }
  redis.call('HSET', reservations, token, table.concat(record, ' '))
  redis.call('ZADD', leases, digits(now_ms + ARGV[9]), token)
end

local use_ms = is_this_month and math.min(tonumber(ARGV[18]), month_ends_ms - now_ms) or 0
if purse == 'trial' and trial then use_ms = math.min(use_ms, trial_ends_ms - now_ms) end
return { 'leased', digits(added_platform), digits(added_spend), digits(math.max(0, use_ms)) }
