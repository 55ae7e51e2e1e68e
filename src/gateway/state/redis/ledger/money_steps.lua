-- What the scripts share that touch the money of a workspace.
--
--   account       hash of its sums; `booked:<month>` has what was charged in each month, since `booked_since_ms`
--   spent         hash: spending of the present month, in all and by key
--   reservations  hash by token: claim purse platform spend month key_id [end_user | =used_platform=used_spend]
--   leases        sorted set of those tokens, by the moment at which the lease ends
--   charged       sorted set of tokens of jobs that were charged, by the moment until when that is remembered
--   lost          hash by token of what dead nodes were charged for: told recovered purse platform spend month key_id
--                 end_user at_ms; an end user that there is none of is `-`
--
-- Amounts are whole micro-USD, moments whole milliseconds by this server's clock. Of a lease, what calls under way have
-- of it stands behind its key: nothing else of it was used.

local CHARGED_MS = 30 * 86400000
local SPENT_TTL_MS = 32 * 86400000
local HOUR_MS = 3600000
local MONEY_TAKEN = '^(%d+) (%S+) (%d+) (%d+) (%S+) (%S+) ?(%S*)$'
local MONEY_LOST = '^(%d) (%d) (%S+) (%d+) (%d+) (%S+) (%S+) (%S+) (%d+)$'

local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)

-- Whole and without an exponent. Zero is added because a negative zero is no integer to Redis.
local function digits(number) return string.format('%.0f', number + 0) end
local function amount(hash, field) return tonumber(redis.call('HGET', hash, field) or 0) end
local function add(hash, field, number)
  if number ~= 0 then redis.call('HINCRBY', hash, field, digits(number)) end
end

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

-- Has spending be counted for the present month. Bookings begin with the first that is met: with the present hour, or
-- with the next one where some was counted before there were bookings.
local function begin_month(account, spent)
  local month, month_ends_ms = month_of(now_ms)
  if redis.call('HEXISTS', account, 'booked_since_ms') == 0 then
    local hour_ms = now_ms - now_ms % HOUR_MS
    local is_new = redis.call('EXISTS', spent) == 0
    redis.call('HSET', account, 'booked_since_ms', digits(is_new and hour_ms or hour_ms + HOUR_MS))
  end
  if redis.call('HGET', spent, 'month') ~= month then
    redis.call('DEL', spent)
    redis.call('HSET', spent, 'month', month)
  end
  return month, month_ends_ms
end

-- Books the charge of calls for good; less than nothing where it turns out to have been less. An account without a
-- beginning of its bookings has charges of an older version only.
local function book(account, spend)
  local since_ms = redis.call('HGET', account, 'booked_since_ms')
  if spend == 0 or not since_ms or now_ms < tonumber(since_ms) then return end
  add(account, 'booked:' .. month_of(now_ms), spend)
end

local function give(account, purse, micros)
  if purse == 'trial' then add(account, 'trial_spent', -micros) end
  if purse == 'credits' then add(account, 'credits', micros) end
end

-- Spending of a month that is over is in no sum any more.
local function spend_more(spent, month, key_id, micros)
  if redis.call('HGET', spent, 'month') ~= month then return end
  add(spent, 'total', micros)
  add(spent, 'key:' .. key_id, micros)
end

local function lose(keys, token, lost)
  redis.call('HSET', keys.lost, token, table.concat({
    lost.told, lost.recovered, lost.purse, digits(lost.platform), digits(lost.spend), lost.month, lost.key_id,
    lost.end_user, digits(lost.at_ms),
  }, ' '))
end

-- The lease of a reservation is over: it is charged what was used of it as far as that is known, which is all but for
-- leases of nodes.
local function expire(keys, token, lease_until_ms)
  local claim, purse, platform, spend, month, key_id, more =
    string.match(redis.call('HGET', keys.reservations, token) or '', MONEY_TAKEN)
  redis.call('HDEL', keys.reservations, token)
  redis.call('ZREM', keys.leases, token)
  -- A record that was lost must not keep the workspace from calling.
  if not claim then return end
  local used_platform, used_spend = string.match(more, '^=(%d+)=(%d+)$')
  local is_lease = used_platform ~= nil
  used_platform = math.min(tonumber(used_platform or platform), tonumber(platform))
  used_spend = tonumber(used_spend or spend)
  add(keys.account, 'reserved', -tonumber(platform))
  give(keys.account, purse, platform - used_platform)
  spend_more(keys.spent, month, key_id, used_spend - spend)
  book(keys.account, used_spend)
  if used_platform > 0 or used_spend > 0 then add(keys.account, 'expired_count', 1) end
  add(keys.account, 'expired', used_platform)
  lose(keys, token, {
    told = 0, recovered = 0, purse = purse, platform = used_platform, spend = used_spend, month = month,
    key_id = key_id, end_user = (is_lease or more == '') and '-' or more, at_ms = now_ms,
  })
  if claim == '0' then return end
  redis.call('ZADD', keys.charged, digits(lease_until_ms + CHARGED_MS), token)
  redis.call('PEXPIRE', keys.charged, CHARGED_MS)
end

-- Others wait: no more than `limit` at a time.
local function expire_due(keys, limit)
  local due = redis.call('ZRANGEBYSCORE', keys.leases, '-inf', digits(now_ms), 'WITHSCORES', 'LIMIT', 0, limit)
  for i = 1, #due, 2 do expire(keys, due[i], tonumber(due[i + 1])) end
end

local function book_grant(account, grants, id, micros)
  if id == '' or redis.call('HSETNX', grants, id, micros .. ' ' .. digits(now_ms)) == 0 then return end
  redis.call('HINCRBY', account, 'credits', micros)
end

-- Counts spending for an end user, in the month that it began in. Returns what it has spent in it, empty where nothing
-- is counted for that month any more.
local function end_user_more(end_user, month, micros)
  local counted_in, before = string.match(redis.call('GET', end_user) or '', '^(%S+) (%d+)$')
  if counted_in ~= month then return '' end
  local after = digits(math.max(0, before + micros))
  redis.call('SET', end_user, month .. ' ' .. after, 'PX', SPENT_TTL_MS)
  return after
end

-- Makes a reservation, which is gone, the real charge. The purse gives no more than was reserved.
local function charge(keys, purse, platform, spend, month, key_id, real_platform, real_spend)
  add(keys.account, 'reserved', -platform)
  add(keys.account, 'overage', math.max(0, real_platform - platform))
  give(keys.account, purse, math.max(0, platform - real_platform))
  spend_more(keys.spent, month, key_id, real_spend - spend)
  book(keys.account, real_spend)
end

