-- The margin report (GET /api/svc/reports/margin) of whole hours. Parameters: `by` (ssp, publisher, domain, hour or
-- day), `from` and `to` (milliseconds since 1970), `base` (currency.base). Money in other
-- currencies is by currency.
WITH
    sumIf(bids, arm IN ('treated', 'explored')) AS treated_bids,
    sumIf(won, arm IN ('treated', 'explored')) AS treated_wins,
    sumIf(margin_sum, arm IN ('treated', 'explored') AND margin_rows.currency = {base:String}) AS treated_margin,
    sumIf(margin_squares, arm IN ('treated', 'explored') AND margin_rows.currency = {base:String}) AS treated_squares,
    sumIf(bids, arm = 'holdout') AS holdout_bids,
    sumIf(won, arm = 'holdout') AS holdout_wins,
    sumIf(margin_sum, arm = 'holdout' AND margin_rows.currency = {base:String}) AS holdout_margin,
    sumIf(margin_squares, arm = 'holdout' AND margin_rows.currency = {base:String}) AS holdout_squares,
    treated_bids > 0 AND treated_wins > 0 AND holdout_bids > 0 AND holdout_wins > 0 AS comparable,
    treated_margin / treated_bids AS treated_mean,
    holdout_margin / holdout_bids AS holdout_mean,
    -- The variance of wins per bid bounds that of money per bid from below.
    greatest(
        pow(treated_mean, 2) * (1 - least(1, treated_wins / (treated_bids + 1))) / treated_wins,
        (treated_squares / treated_bids - pow(treated_mean, 2)) / treated_bids) AS treated_variance,
    greatest(
        pow(holdout_mean, 2) * (1 - least(1, holdout_wins / (holdout_bids + 1))) / holdout_wins,
        (holdout_squares / holdout_bids - pow(holdout_mean, 2)) / holdout_bids) AS holdout_variance,
    treated_variance + holdout_variance AS variance,
    -- An interval that is valid at all times at once (Robbins' normal mixture, tuned to 400 wins).
    pow(variance, 2) / (pow(treated_variance, 2) / treated_wins + pow(holdout_variance, 2) / holdout_wins) / 400 AS age,
    if(variance > 0, sqrt(variance * (1 + 1 / age) * log((1 + age) / pow(0.05, 2))), 0) AS half
SELECT
    multiIf(
        {by:String} = 'publisher', publisher,
        {by:String} = 'domain', domain,
        {by:String} = 'hour', formatDateTime(hour, '%Y-%m-%dT%H:00:00.000Z'),
        {by:String} = 'day', formatDateTime(hour, '%Y-%m-%dT00:00:00.000Z'),
        ssp) AS key,
    sum(bids) AS decided,
    sum(won) AS wins,
    toString(sumIf(cleared_money + margin_money, margin_rows.currency = {base:String})) AS revenue,
    toString(sumIf(cleared_money, margin_rows.currency = {base:String})) AS cleared,
    toString(sumIf(margin_money, margin_rows.currency = {base:String})) AS margin,
    mapFilter((name, n) -> name NOT IN ('', {base:String}), sumMap(map(margin_rows.currency, won))) AS no_rate_wins,
    mapApply((name, money) -> (name, toString(money)), mapFilter(
        (name, money) -> name NOT IN ('', {base:String}),
        sumMap(map(margin_rows.currency, cleared_money)))) AS no_rate_cleared,
    mapApply((name, money) -> (name, toString(money)), mapFilter(
        (name, money) -> name NOT IN ('', {base:String}),
        sumMap(map(margin_rows.currency, margin_money)))) AS no_rate_margin,
    if(comparable, treated_mean - holdout_mean, NULL) AS uplift,
    if(comparable, treated_mean - holdout_mean - half, NULL) AS uplift_low,
    if(comparable, treated_mean - holdout_mean + half, NULL) AS uplift_high,
    {base:String} AS currency
FROM bidweir.margin_rows
WHERE hour >= toStartOfHour(fromUnixTimestamp64Milli({from:Int64}, 'UTC'))
    AND hour < fromUnixTimestamp64Milli({to:Int64}, 'UTC')
GROUP BY key
ORDER BY key
