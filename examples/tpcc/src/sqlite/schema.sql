CREATE TABLE item (
    i_id INTEGER PRIMARY KEY, i_im_id INTEGER, i_price INTEGER, i_name TEXT, i_data BLOB
);
CREATE TABLE warehouse (
    w_id INTEGER PRIMARY KEY, w_ytd INTEGER, w_tax INTEGER, w_name TEXT,
    w_street_1 TEXT, w_street_2 TEXT, w_city TEXT, w_state TEXT, w_zip TEXT
);
CREATE TABLE district (
    d_w_id INTEGER, d_id INTEGER, d_ytd INTEGER, d_tax INTEGER, d_next_o_id INTEGER, d_name TEXT,
    d_street_1 TEXT, d_street_2 TEXT, d_city TEXT, d_state TEXT, d_zip TEXT,
    PRIMARY KEY (d_w_id, d_id)
) WITHOUT ROWID;
CREATE TABLE customer (
    c_w_id INTEGER, c_d_id INTEGER, c_id INTEGER,
    c_balance INTEGER, c_ytd_payment INTEGER, c_payment_cnt INTEGER, c_delivery_cnt INTEGER,
    c_last_order INTEGER, c_discount INTEGER, c_credit_lim INTEGER, c_since INTEGER, c_credit TEXT,
    c_first TEXT, c_middle TEXT, c_last TEXT,
    c_street_1 TEXT, c_street_2 TEXT, c_city TEXT, c_state TEXT, c_zip TEXT, c_phone TEXT, c_data BLOB,
    PRIMARY KEY (c_w_id, c_d_id, c_id)
) WITHOUT ROWID;
CREATE INDEX by_last_name ON customer (c_w_id, c_d_id, c_last, c_first);
CREATE TABLE history (
    h_c_id INTEGER, h_c_d_id INTEGER, h_c_w_id INTEGER, h_d_id INTEGER, h_w_id INTEGER,
    h_date INTEGER, h_amount INTEGER, h_data TEXT
);
CREATE TABLE new_order (
    no_w_id INTEGER, no_d_id INTEGER, no_o_id INTEGER, PRIMARY KEY (no_w_id, no_d_id, no_o_id)
) WITHOUT ROWID;
CREATE TABLE orders (
    o_w_id INTEGER, o_d_id INTEGER, o_id INTEGER, o_c_id INTEGER, o_entry_d INTEGER,
    o_carrier_id INTEGER, o_ol_cnt INTEGER, o_all_local INTEGER,
    PRIMARY KEY (o_w_id, o_d_id, o_id)
) WITHOUT ROWID;
CREATE TABLE order_line (
    ol_w_id INTEGER, ol_d_id INTEGER, ol_o_id INTEGER, ol_number INTEGER, ol_i_id INTEGER,
    ol_supply_w_id INTEGER, ol_delivery_d INTEGER, ol_quantity INTEGER, ol_amount INTEGER, ol_dist_info TEXT,
    PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number)
) WITHOUT ROWID;
-- The ten texts for the districts are one column, from which `substr` takes what it needs.
CREATE TABLE stock (
    s_w_id INTEGER, s_i_id INTEGER, s_quantity INTEGER, s_ytd INTEGER, s_order_cnt INTEGER,
    s_remote_cnt INTEGER, s_dist TEXT, s_data BLOB,
    PRIMARY KEY (s_w_id, s_i_id)
) WITHOUT ROWID;
