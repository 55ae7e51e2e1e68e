-- How an account stands, after the grant of its terms was booked and lost reservations were counted.
--
-- KEYS account grants spent reservations leases charged
-- ARGV grant_id grant
-- Reply {{credits, trial_spent, overage, reserved, expired_count, expired}, month, spent, grants}: nulls are zeros,
-- `spent` and `grants` are fields and values in turn, a grant is `micros booked_at_ms`
--
-- An empty `grant_id`: the terms have none. Reservations past their lease stay charged; counting them here takes no
-- longer than a node may block the others, so the last of very many may be left to the next call. Those of jobs are in
-- `charged` from then on, until the score there: nothing more is set aside for them.

local SWEPT_AT_ONCE = 500
local CHARGED_MS = 30 * 86400000

local account, grants, spent, reservations, leases, charged = unpack(KEYS)

local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)

-- Whole and without an exponent. Zero is added because a negative zero is no integer to Redis.
local function digits(number) return string.format('%.0f', number + 0) end
local function add(hash, field, number) redis.call('HINCRBY', hash, field, digits(number)) end

-- The month in UTC as yyyy-mm: days since a first of March, so that a leap day is the last of its year.
local function month_of(ms)
  local days = math.floor(ms / 86400000) + 719468
  local era, day = math.floor(days / 146097), days % 146097
  local year = math.floor((day - math.floor(day / 1460) + math.floor(day / 36524) - math.floor(day / 146096)) / 365)
  local month = math.floor((5 * (day - 365 * year - math.floor(year / 4) + math.floor(year / 100)) + 2) / 153) + 3
  if month > 12 then year, month = year + 1, month - 12 end
  return string.format('%04d-%02d', era * 400 + year, month)
end

local due = redis.call('ZRANGEBYSCORE', leases, '-inf', digits(now_ms), 'WITHSCORES', 'LIMIT', 0, SWEPT_AT_ONCE)
for i = 1, #due, 2 do
  local token, lease_until_ms = due[i], tonumber(due[i + 1])
  local claim, platform = string.match(redis.call('HGET', reservations, token) or '', '^(%d+) %S+ (%d+)')
  redis.call('HDEL', reservations, token)
  redis.call('ZREM', leases, token)
  -- A record that was lost must not hide the account.
  if claim then
    add(account, 'reserved', -tonumber(platform))
    add(account, 'expired_count', 1)
    add(account, 'expired', tonumber(platform))
  end
  if claim and claim ~= '0' then
    redis.call('ZADD', charged, digits(lease_until_ms + CHARGED_MS), token)
    redis.call('PEXPIRE', charged, CHARGED_MS)
  end
end

if ARGV[1] ~= '' and redis.call('HSETNX', grants, ARGV[1], ARGV[2] .. ' ' .. digits(now_ms)) == 1 then
  redis.call('HINCRBY', account, 'credits', ARGV[2])
end

local month = month_of(now_ms)
local sums = redis.call('HGET', spent, 'month') == month and redis.call('HGETALL', spent) or {}
local figures = redis.call('HMGET', account,
  'credits', 'trial_spent', 'overage', 'reserved', 'expired_count', 'expired')
return { figures, month, sums, redis.call('HGETALL', grants) }
